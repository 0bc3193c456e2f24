-- +goose Up

-- What was extracted from files of repositories, by content: branches, runs and workers share it. All of
-- it can be computed again. The data is compressed.
CREATE TABLE orchestrator_brain_blobs (
    key     BYTEA PRIMARY KEY, -- of the content, its kind of file and the version of the processors
    data    BYTEA NOT NULL,
    used_at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp() -- to the day
);
ALTER TABLE orchestrator_brain_blobs ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX orchestrator_brain_blobs_use ON orchestrator_brain_blobs (used_at);

-- +goose Down
DROP TABLE orchestrator_brain_blobs;
