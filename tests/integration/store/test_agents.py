"""AgentService and IdentityService against a real database."""

from __future__ import annotations

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from netaclaw.agent.v1 import agent_pb2, agent_service_pb2
from netaclaw.error.v1.reason_pb2 import Reason
from netaclaw.store.v1 import identity_service_pb2 as k
from netaclaw.store.v1 import journal_service_pb2 as j
from netaclaw_chassis.ids import new_id
from tests.integration.store.driver import OWNER, Store, metadata, refused

p = agent_service_pb2
Agent = agent_pb2.Agent


async def _create(store: Store, name: str, owner: str = OWNER, **fields: object) -> agent_pb2.Agent:
    agent = Agent(name=name, **fields)  # type: ignore[arg-type]  # by name
    return (await store.agents.CreateAgent(p.CreateAgentRequest(agent=agent), metadata=metadata(owner))).agent


async def _update(store: Store, agent: agent_pb2.Agent, *paths: str, etag: str = "") -> agent_pb2.Agent:
    request = p.UpdateAgentRequest(agent=agent, update_mask={"paths": list(paths)}, etag=etag or agent.etag)
    return (await store.agents.UpdateAgent(request, metadata=metadata())).agent


async def test_an_agent_is_stored_whole_and_unpublished(store: Store) -> None:
    config = agent_pb2.SubagentConfig(enabled=False, allowed_tool_names=agent_pb2.NameList())
    made = await _create(store, "Réviseur", model="m", subagent_config=config, published=True)
    read = await store.agents.GetAgent(p.GetAgentRequest(agent_id=made.agent_id), metadata=metadata())
    assert read.agent == made
    assert not made.published
    assert made.subagent_config == config
    assert made.subagent_config.HasField("allowed_tool_names")


async def test_the_same_id_and_content_again_answers_the_first_agent(store: Store) -> None:
    request = p.CreateAgentRequest(agent=Agent(name="a"), agent_id=new_id())
    first = await store.agents.CreateAgent(request, metadata=metadata())
    assert await store.agents.CreateAgent(request, metadata=metadata()) == first
    request.agent.model = "other"
    async with refused(Reason.REASON_ALREADY_EXISTS):
        await store.agents.CreateAgent(request, metadata=metadata())
    async with refused(Reason.REASON_ALREADY_EXISTS):
        await _create(store, "a")


async def test_names_are_unique_per_owner_only(store: Store) -> None:
    assert (await _create(store, "a")).agent_id != (await _create(store, "a", owner="bob")).agent_id


async def test_an_update_changes_only_what_the_mask_names(store: Store) -> None:
    made = await _create(store, "a", model="m", description="d")
    wanted = Agent(agent_id=made.agent_id, name="b", model="n", etag=made.etag)
    wanted.subagent_config.max_concurrent = 5
    wanted.subagent_config.timeout_seconds = 9
    updated = await _update(store, wanted, "name", "description", "subagent_config.max_concurrent")
    assert (updated.name, updated.model, updated.description) == ("b", "m", "")
    assert updated.subagent_config.max_concurrent == 5
    assert not updated.subagent_config.HasField("timeout_seconds")
    assert updated.etag != made.etag


async def test_an_update_with_an_old_etag_or_a_taken_name_is_refused(store: Store) -> None:
    made = await _create(store, "a")
    await _create(store, "b")
    changed = Agent(agent_id=made.agent_id, name="b", model="m", etag=made.etag)
    async with refused(Reason.REASON_ALREADY_EXISTS):
        await _update(store, changed, "name")
    await _update(store, changed, "model")
    async with refused(Reason.REASON_STALE_ETAG):
        await _update(store, changed, "model", etag=made.etag)


@pytest.mark.parametrize("paths", [(), ("published",), ("agent_id",), ("nothing",), ("subagent_config.nothing",)])
async def test_a_mask_that_may_not_be_changed_is_refused(store: Store, paths: tuple[str, ...]) -> None:
    made = await _create(store, "a")
    async with refused(Reason.REASON_INVALID_FIELD) as errors:
        await _update(store, made, *paths)
    assert errors[0].violations[0][0] == "update_mask"


async def test_only_published_agents_are_options_and_presets(store: Store) -> None:
    await store.new_turn()  # makes the default agent, which is published
    made = [await _create(store, name) for name in ("b", "a", "c")]
    for agent in made[:2]:
        request = p.PublishAgentRequest(agent_id=agent.agent_id, published=True)
        for _ in range(2):
            published = await store.agents.PublishAgent(request, metadata=metadata())
            assert published.agent.etag == "2"
    names: list[str] = []
    options = p.ListAgentOptionsRequest(page_size=2)
    while True:
        page = await store.agents.ListAgentOptions(options, metadata=metadata())
        names += [option.name for option in page.options]
        options.page_token = page.next_page_token
        if not page.next_page_token:
            break
    assert names == ["a", "assistant", "b"]
    assert [preset.name for preset in (await store.new_turn()).begun.presets] == names


async def test_agents_are_listed_newest_first(store: Store) -> None:
    made = [await _create(store, str(n)) for n in range(5)]
    listed: list[agent_pb2.Agent] = []
    request = p.ListAgentsRequest(page_size=2)
    while True:
        page = await store.agents.ListAgents(request, metadata=metadata())
        listed.extend(page.agents)
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
    assert listed == made[::-1]


async def test_another_owners_agent_is_not_found(store: Store) -> None:
    made = await _create(store, "a", owner="bob")
    async with refused(Reason.REASON_AGENT_NOT_FOUND):
        await store.agents.GetAgent(p.GetAgentRequest(agent_id=made.agent_id), metadata=metadata())
    async with refused(Reason.REASON_AGENT_NOT_FOUND):
        await _update(store, made, "name")
    async with refused(Reason.REASON_AGENT_NOT_FOUND):
        await store.agents.PublishAgent(p.PublishAgentRequest(agent_id=made.agent_id), metadata=metadata())
    await store.agents.DeleteAgent(p.DeleteAgentRequest(agent_id=made.agent_id), metadata=metadata())
    read = await store.agents.GetAgent(p.GetAgentRequest(agent_id=made.agent_id), metadata=metadata("bob"))
    assert read.agent == made


async def test_a_session_whose_agent_was_deleted_is_answered_by_the_default_one(store: Store) -> None:
    made = await _create(store, "a")
    session_id = new_id()
    create = j.CreateSessionRequest(owner_id=OWNER)
    create.request.session_id, create.request.agent_id = session_id, made.agent_id
    await store.journal.CreateSession(create)
    for _ in range(2):
        await store.agents.DeleteAgent(p.DeleteAgentRequest(agent_id=made.agent_id), metadata=metadata())
    assert (await store.begin(session_id)).agent.name == "assistant"


async def test_a_key_verifies_until_it_is_revoked_or_expired(store: Store) -> None:
    key = await store.keys.CreateKey(k.CreateKeyRequest(owner_id="bob", name="laptop"))
    verified = await store.keys.VerifyKey(k.VerifyKeyRequest(secret=key.secret))
    assert (verified.owner_id, verified.key_id) == ("bob", key.key_id)
    for _ in range(2):
        await store.keys.RevokeKey(k.RevokeKeyRequest(key_id=key.key_id))
    past = await store.keys.CreateKey(k.CreateKeyRequest(owner_id="bob", expire_time=Timestamp(seconds=1)))
    for secret in (key.secret, past.secret, "guess", ""):
        async with refused(Reason.REASON_UNAUTHENTICATED):
            await store.keys.VerifyKey(k.VerifyKeyRequest(secret=secret))


@pytest.mark.parametrize(("seconds", "nanos"), [(10**15, 0), (-(10**15), 0), (1, -1), (1, 2**31 - 1)])
async def test_a_key_that_would_expire_at_no_time_is_refused(store: Store, seconds: int, nanos: int) -> None:
    asked = k.CreateKeyRequest(owner_id="ann", expire_time=Timestamp(seconds=seconds, nanos=nanos))
    async with refused(Reason.REASON_INVALID_FIELD) as errors:
        await store.keys.CreateKey(asked)
    assert errors[0].violations[0][0] == "expire_time"


@pytest.mark.parametrize("owner", ["zoë", "ann ", " ann", "a\nb", "漢", "a\tb"])
async def test_a_key_of_an_owner_whose_name_no_call_can_carry_is_refused(store: Store, owner: str) -> None:
    async with refused(Reason.REASON_INVALID_FIELD) as errors:
        await store.keys.CreateKey(k.CreateKeyRequest(owner_id=owner))
    assert errors[0].violations[0][0] == "owner_id"
    assert (await store.keys.CreateKey(k.CreateKeyRequest(owner_id="Ann B. <ann@example.org>"))).secret


async def test_keys_are_listed_newest_first_in_pages(store: Store) -> None:
    insert = (
        "INSERT INTO api_key (key_id, owner_id, secret_hash)"
        " SELECT 'k' || lpad(n::text, 4, '0'), 'o' || n % 2, convert_to(n::text, 'UTF8')"
        " FROM generate_series(0, 2499) AS n"
    )
    await store.query(insert)
    for owner, step in (("", 1), ("o1", 2)):
        request = k.ListKeysRequest(owner_id=owner)
        found: list[str] = []
        while True:
            page = await store.keys.ListKeys(request)
            found += [key.key_id for key in page.keys]
            request.page_token = page.next_page_token
            if not request.page_token:
                break
        assert found == [f"k{number:04}" for number in range(2499, -1, -step)]
    page = await store.keys.ListKeys(k.ListKeysRequest())
    async with refused(Reason.REASON_INVALID_FIELD):
        await store.keys.ListKeys(k.ListKeysRequest(owner_id="o1", page_token=page.next_page_token))


async def test_no_secret_rests_in_the_database(store: Store) -> None:
    key = await store.keys.CreateKey(k.CreateKeyRequest(owner_id="bob"))
    assert key.secret not in str([dict(row) for row in await store.query("SELECT * FROM api_key")])
