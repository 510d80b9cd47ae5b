/** What a picker of models offers. */
import { create } from "@bufbuild/protobuf";
import { type Model, ModelAvailability, ModelSchema } from "@netaclaw/client/gen/netaclaw/model/v1/model_pb";
import { expect, it } from "vitest";

import { chosenOf, optionsOf, stateOf } from "../src/model/models";

const { AVAILABLE, KEY_MISSING, NOT_INSTALLED } = ModelAvailability;
const model = (name: string, availability: ModelAvailability, isDefault = false): Model =>
  create(ModelSchema, { name, availability, isDefault });
const CATALOGUE = [model("big", KEY_MISSING), model("local", NOT_INSTALLED), model("small", AVAILABLE, true)];

it("offers the catalogue as it is ordered, and says what cannot answer", () => {
  expect(optionsOf(CATALOGUE, "", "")).toEqual([
    { name: "big", state: "keyMissing" },
    { name: "local", state: "notInstalled" },
    { name: "small", state: "ready" },
  ]);
});

it("keeps what is chosen and what is stored, once each, where the catalogue has them no more", () => {
  const gone = (...kept: string[]) => optionsOf(CATALOGUE, ...kept).filter(({ state }) => state === "unknown");
  expect(gone("old", "old").map(({ name }) => name)).toEqual(["old"]);
  expect(gone("small", "old").map(({ name }) => name)).toEqual(["old"]);
  expect(gone("older", "old").map(({ name }) => name)).toEqual(["older", "old"]);
  expect(gone("small", "big")).toEqual([]);
});

it("takes an empty name for the default", () => {
  expect(chosenOf(CATALOGUE, "")?.name).toBe("small");
  expect(chosenOf(CATALOGUE, "big")?.name).toBe("big");
  expect(stateOf(chosenOf(CATALOGUE, "old"))).toBe("unknown");
});

it("has a word for an availability that is newer than the page", () => {
  expect(stateOf(model("new", 99 as ModelAvailability))).toBe("unavailable");
});
