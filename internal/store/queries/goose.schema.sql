-- Goose's own table, for sqlc to know its columns. Goose makes it.
CREATE TABLE goose_db_version (
    id         INTEGER PRIMARY KEY,
    version_id BIGINT NOT NULL,
    is_applied BOOLEAN NOT NULL,
    tstamp     TIMESTAMP NOT NULL
);
