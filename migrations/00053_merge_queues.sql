-- +goose Up

-- Merge queues: one for each branch of a repository that had a pull request in it. Their workflows decide;
-- these rows are what is read.
CREATE TABLE orchestrator_merge_queues (
    forge        TEXT NOT NULL, -- name in the configuration
    repo         TEXT NOT NULL, -- path on the forge
    base         TEXT NOT NULL, -- branch
    version      BIGINT NOT NULL, -- of the last change
    paused_at    TIMESTAMPTZ,
    paused_by    TEXT NOT NULL DEFAULT '',
    pause_reason TEXT NOT NULL DEFAULT '',
    check_runs   BIGINT NOT NULL DEFAULT 0, -- candidates whose checks ran
    decided      BIGINT NOT NULL DEFAULT 0, -- pull requests that they decided about
    updated_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (forge, repo, base)
);
CREATE INDEX orchestrator_merge_queues_updated ON orchestrator_merge_queues (updated_at);

-- Pull requests in merge queues. One that was returned and added again has another row.
CREATE TABLE orchestrator_merge_queue_entries (
    id           BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    forge        TEXT NOT NULL,
    repo         TEXT NOT NULL,
    base         TEXT NOT NULL,
    key          TEXT NOT NULL, -- id of the command that added it
    number       BIGINT NOT NULL,
    title        TEXT NOT NULL DEFAULT '',
    url          TEXT NOT NULL DEFAULT '',
    run_id       BIGINT REFERENCES orchestrator_runs ON DELETE SET NULL, -- that has it
    added_by     TEXT NOT NULL DEFAULT '',
    added_at     TIMESTAMPTZ NOT NULL,
    place        BIGINT NOT NULL, -- those in the queue are taken in this order
    state        TEXT NOT NULL CHECK (state IN ('waiting', 'testing', 'merging', 'merged', 'returned')),
    reason       TEXT NOT NULL DEFAULT '', -- why it waits or was returned; of a merged one, notes
    head_commit  TEXT NOT NULL DEFAULT '', -- that is tested, or was merged
    batch        TEXT NOT NULL DEFAULT '', -- branch of the candidate that it was last part of
    merge_commit TEXT NOT NULL DEFAULT '', -- on the base
    version      BIGINT NOT NULL,
    updated_at   TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    ended_at     TIMESTAMPTZ,
    FOREIGN KEY (forge, repo, base) REFERENCES orchestrator_merge_queues,
    UNIQUE (forge, repo, base, key)
);
CREATE INDEX orchestrator_merge_queue_entries_open ON orchestrator_merge_queue_entries (forge, repo, base, place) WHERE ended_at IS NULL;
CREATE INDEX orchestrator_merge_queue_entries_number ON orchestrator_merge_queue_entries (forge, repo, number, id);
CREATE INDEX orchestrator_merge_queue_entries_ended ON orchestrator_merge_queue_entries (forge, repo, base, id) WHERE ended_at IS NOT NULL;
CREATE INDEX orchestrator_merge_queue_entries_run ON orchestrator_merge_queue_entries (run_id) WHERE run_id IS NOT NULL;

-- Commands to merge queues that had an effect.
CREATE TABLE orchestrator_merge_queue_commands (
    forge      TEXT NOT NULL,
    repo       TEXT NOT NULL,
    base       TEXT NOT NULL,
    key        TEXT NOT NULL, -- its id
    action     TEXT NOT NULL,
    number     BIGINT, -- of the pull request; NULL: it concerns the queue
    by_whom    TEXT NOT NULL,
    reason     TEXT NOT NULL,
    created_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (forge, repo, base, key),
    FOREIGN KEY (forge, repo, base) REFERENCES orchestrator_merge_queues
);

-- +goose StatementBegin
-- Commands of people become entries of the ledger. What the program itself does has no entry: the rows say it.
CREATE FUNCTION rgpt_ledger_merge_queue() RETURNS TRIGGER LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM rgpt_ledger_command(NEW.by_whom, 'queue.' || NEW.action,
        CASE WHEN NEW.number IS NULL THEN 'merge queue of ' ELSE 'pull request ' || NEW.number || ' of ' END || left(NEW.repo, 200), 0,
        jsonb_build_object('forge', NEW.forge, 'base', rgpt_ledger_text(NEW.base), 'reason', nullif(rgpt_ledger_text(NEW.reason), '')));
    RETURN NULL;
END
$$;
-- +goose StatementEnd
CREATE CONSTRAINT TRIGGER orchestrator_ledger_merge_queues AFTER INSERT ON orchestrator_merge_queue_commands
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.by_whom <> 'the system')
    EXECUTE FUNCTION rgpt_ledger_merge_queue();

-- +goose Down
DROP TABLE orchestrator_merge_queue_commands;
DROP TABLE orchestrator_merge_queue_entries;
DROP TABLE orchestrator_merge_queues;
DROP FUNCTION rgpt_ledger_merge_queue;
