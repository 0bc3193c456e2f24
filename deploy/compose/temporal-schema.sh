#!/bin/sh
# Creates Temporal's databases on PostgreSQL and updates their schema. Safe to run
# again: it does not change existing data.
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
