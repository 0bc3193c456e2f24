#!/bin/sh
# Registers the namespace and the search attributes of runs. Safe to run again.
set -eu
until temporal operator cluster health >/dev/null 2>&1; do sleep 1; done
temporal operator namespace describe --namespace "$TEMPORAL_NAMESPACE" >/dev/null 2>&1 ||
	temporal operator namespace create --namespace "$TEMPORAL_NAMESPACE" --retention "$RETENTION"
for attribute in $SEARCH_ATTRIBUTES; do
	name=${attribute%%=*}
	temporal operator search-attribute list --namespace "$TEMPORAL_NAMESPACE" | grep -qw "$name" ||
		temporal operator search-attribute create --namespace "$TEMPORAL_NAMESPACE" --name "$name" --type "${attribute#*=}"
done
echo "The namespace $TEMPORAL_NAMESPACE and its search attributes exist."
