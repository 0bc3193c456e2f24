#!/bin/sh
# Makes Temporal's databases on PostgreSQL and brings their schema up to date.
# Safe to run again: it changes nothing that is there.
set -eu
SQL_PASSWORD=$(cat /run/secrets/postgres_password)
export SQL_PASSWORD

schema() {
	database=$1 folder=$2
	temporal-sql-tool --db "$database" create
	temporal-sql-tool --db "$database" setup-schema --version 0.0
	temporal-sql-tool --db "$database" update-schema --schema-dir "/etc/temporal/schema/postgresql/v12/$folder/versioned"
}
schema temporal temporal
schema temporal_visibility visibility
