-- A waiting message may ask to begin at the root, as the first one of a session did.
ALTER TABLE queued_message ADD COLUMN from_root boolean NOT NULL DEFAULT false;
