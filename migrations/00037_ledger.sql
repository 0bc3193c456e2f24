-- +goose Up

-- Who did what: an append-only chain. Each entry contains the hash of the one before, so a change of any
-- of them is found by rgpt ledger verify.
CREATE TABLE orchestrator_ledger (
    seq      BIGINT PRIMARY KEY, -- from 1, without gaps
    at       TIMESTAMPTZ NOT NULL,
    actor    TEXT NOT NULL CHECK (actor IN ('person', 'agent', 'system')),
    name     TEXT NOT NULL,      -- of the person, of the agent with its model, or of the part of the system
    action   TEXT NOT NULL,
    object   TEXT NOT NULL,      -- what it was done to
    run_id   BIGINT NOT NULL,    -- 0: no run
    details  TEXT,               -- a JSON document; NULL: removed by retention
    digest   TEXT NOT NULL,      -- SHA-256 of the details
    previous TEXT NOT NULL,      -- hash of the entry before
    hash     TEXT NOT NULL       -- SHA-256 of all of the above except details
);
CREATE INDEX orchestrator_ledger_run ON orchestrator_ledger (run_id, seq);
CREATE INDEX orchestrator_ledger_action ON orchestrator_ledger (action, seq);

-- The end of the chain. Its lock orders the writers.
CREATE TABLE orchestrator_ledger_head (
    one  BOOLEAN PRIMARY KEY DEFAULT true CHECK (one),
    seq  BIGINT NOT NULL,
    hash TEXT NOT NULL
);
INSERT INTO orchestrator_ledger_head VALUES (true, 0, '');

-- Signed statements about the end of the chain at some time. Copies are in the artifact store.
CREATE TABLE orchestrator_ledger_checkpoints (
    seq        BIGINT PRIMARY KEY,
    hash       TEXT NOT NULL,
    at         TIMESTAMPTZ NOT NULL,
    key        TEXT NOT NULL, -- public key, base64
    signature  TEXT NOT NULL, -- base64
    artifact   TEXT NOT NULL, -- digest of the copy
    created_at TIMESTAMPTZ NOT NULL DEFAULT now()
);

-- +goose StatementBegin
-- The length makes the text that is hashed unambiguous.
CREATE FUNCTION rgpt_ledger_field(t TEXT) RETURNS TEXT LANGUAGE sql IMMUTABLE AS $$
    SELECT octet_length(t) || ':' || t || E'\n'
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION rgpt_ledger_hash(previous TEXT, seq BIGINT, at TIMESTAMPTZ, actor TEXT, name TEXT, action TEXT, object TEXT, run_id BIGINT, digest TEXT)
RETURNS TEXT LANGUAGE sql STABLE AS $$
    SELECT encode(sha256(convert_to(
        rgpt_ledger_field(previous) || rgpt_ledger_field(seq::text) || rgpt_ledger_field(trunc(extract(epoch FROM at) * 1000000)::bigint::text)
        || rgpt_ledger_field(actor) || rgpt_ledger_field(name) || rgpt_ledger_field(action) || rgpt_ledger_field(object)
        || rgpt_ledger_field(run_id::text) || rgpt_ledger_field(digest), 'UTF8')), 'hex')
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- Appends an entry in the caller's transaction. It runs with the rights of its owner, so that others need
-- no right to write the table.
CREATE FUNCTION rgpt_ledger_append(actor TEXT, name TEXT, action TEXT, object TEXT, run_id BIGINT, details TEXT)
RETURNS BIGINT LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    head orchestrator_ledger_head;
    now_at TIMESTAMPTZ;
    content TEXT;
    link TEXT;
BEGIN
    UPDATE orchestrator_ledger_head h SET seq = h.seq + 1 WHERE h.one RETURNING h.* INTO STRICT head;
    now_at := clock_timestamp(); -- after the lock, so that times follow the order
    content := encode(sha256(convert_to(details, 'UTF8')), 'hex');
    link := rgpt_ledger_hash(head.hash, head.seq, now_at, actor, name, action, object, run_id, content);
    INSERT INTO orchestrator_ledger VALUES (head.seq, now_at, actor, name, action, object, run_id, details, content, head.hash, link);
    UPDATE orchestrator_ledger_head h SET hash = link WHERE h.one;
    RETURN head.seq;
END
$$;
-- +goose StatementEnd
-- Others append by the triggers, which run with the rights of the owner.
REVOKE EXECUTE ON FUNCTION rgpt_ledger_append FROM PUBLIC;

-- +goose StatementBegin
-- Entries do not change, except that their details may be removed.
CREATE FUNCTION rgpt_ledger_guard() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.details IS NULL AND
       (NEW.seq, NEW.at, NEW.actor, NEW.name, NEW.action, NEW.object, NEW.run_id, NEW.digest, NEW.previous, NEW.hash) IS NOT DISTINCT FROM
       (OLD.seq, OLD.at, OLD.actor, OLD.name, OLD.action, OLD.object, OLD.run_id, OLD.digest, OLD.previous, OLD.hash) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'the ledger is append-only: % is not allowed', lower(TG_OP);
END
$$;
-- +goose StatementEnd
CREATE TRIGGER orchestrator_ledger_guard BEFORE UPDATE OR DELETE ON orchestrator_ledger FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_guard();
CREATE TRIGGER orchestrator_ledger_whole BEFORE TRUNCATE ON orchestrator_ledger FOR EACH STATEMENT EXECUTE FUNCTION rgpt_ledger_guard();

-- +goose StatementBegin
-- Events that say who did what become entries, in their own transaction, at its end: the lock of the
-- chain is the last that a transaction takes, and the shortest.
CREATE FUNCTION rgpt_ledger_event() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    by_whom TEXT := coalesce(nullif(NEW.payload ->> 'by', 'the clock'), '');
    done_step TEXT := coalesce(NEW.payload ->> 'step', '');
    object TEXT := 'run ' || NEW.run_id;
    author TEXT;
BEGIN
    IF NEW.event_type = 'run.updated' AND by_whom = '' THEN
        RETURN NULL; -- a state, not an act
    END IF;
    IF done_step <> '' THEN
        object := object || ' ' || done_step;
    END IF;
    IF by_whom <> '' THEN
        PERFORM rgpt_ledger_append('person', by_whom, NEW.event_type, object, NEW.run_id, NEW.payload::text);
        RETURN NULL;
    END IF;
    IF NEW.event_type IN ('planner.completed', 'step.completed', 'step.error') THEN
        SELECT e.agent || ' ' || e.provider || '/' || e.model INTO author
        FROM orchestrator_executions e
        WHERE e.run_id = NEW.run_id AND e.phase = CASE WHEN NEW.event_type = 'planner.completed' THEN 'planner' ELSE e.phase END
          AND e.step = done_step AND e.model <> ''
        ORDER BY e.id DESC LIMIT 1;
    END IF;
    PERFORM rgpt_ledger_append(CASE WHEN author IS NULL THEN 'system' ELSE 'agent' END, coalesce(author, 'rgpt'),
                               NEW.event_type, object, NEW.run_id, NEW.payload::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_events AFTER INSERT ON orchestrator_events
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.event_type IN (
        'run.created', 'run.updated', 'run.failed', 'planner.completed', 'step.completed', 'step.error', 'releaser.completed',
        'approval.requested', 'approval.granted', 'approval.rejected', 'approval.expired', 'input.answered',
        'intervention.requested', 'intervention.resolved', 'intervention.expired', 'message.added',
        'model.switched', 'model.fallback', 'model.restored', 'gate.allowed', 'gate.needs_approval', 'gate.denied',
        'heal.started', 'agent.revoked', 'check.received'))
    EXECUTE FUNCTION rgpt_ledger_event();

-- +goose StatementBegin
CREATE FUNCTION rgpt_ledger_policies() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rgpt_ledger_append('system', 'rgpt', 'policies.changed', 'policies ' || NEW.digest, 0, jsonb_build_object('digest', NEW.digest)::text);
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_policies AFTER INSERT ON orchestrator_gate_policies
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION rgpt_ledger_policies();

-- +goose Down
DROP TRIGGER orchestrator_ledger_policies ON orchestrator_gate_policies;
DROP FUNCTION rgpt_ledger_policies;
DROP TRIGGER orchestrator_ledger_events ON orchestrator_events;
DROP FUNCTION rgpt_ledger_event;
DROP TABLE orchestrator_ledger_checkpoints;
DROP TABLE orchestrator_ledger;
DROP FUNCTION rgpt_ledger_guard, rgpt_ledger_append, rgpt_ledger_hash, rgpt_ledger_field;
DROP TABLE orchestrator_ledger_head;
