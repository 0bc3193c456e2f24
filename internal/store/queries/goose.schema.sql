-- Goose's own table, so that sqlc knows its columns. Goose creates it.
CREATE TABLE goose_db_version (
    id         INTEGER PRIMARY KEY,
    version_id BIGINT NOT NULL,
    is_applied BOOLEAN NOT NULL,
    tstamp     TIMESTAMP NOT NULL
);
