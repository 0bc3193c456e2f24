package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	persistencespb "go.temporal.io/server/api/persistence/v1"
	"go.temporal.io/server/common"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence"
	persistenceclient "go.temporal.io/server/common/persistence/client"
	"go.temporal.io/server/common/persistence/serialization"
	"go.temporal.io/server/common/resolver"
	"go.temporal.io/server/common/searchattribute/sadefs"
	"go.temporal.io/server/common/telemetry"
	"google.golang.org/protobuf/types/known/durationpb"
)

// retention is how long closed workflows are kept. After the usual single day, a developer could no
// longer inspect yesterday's runs.
const retention = 7 * 24 * time.Hour

// prepareNamespaces creates the namespaces that are missing and registers the
// search attributes in all of them.
//
// It writes to the database before the server starts. Using the API would take seconds at every
// start, because each service refreshes its namespace cache independently.
func prepareNamespaces(ctx context.Context, st *store, namespaces []string, attributes map[string]enumspb.IndexedValueType, logger serverLogger) error {
	cluster := persistenceclient.ClusterName(clusterName)
	serializer := serialization.NewSerializer()
	dataStores := persistenceclient.DataStoreFactoryProvider(cluster, resolver.NewNoopResolver(), &st.persistence, nil,
		logger, metrics.NoopMetricsHandler, telemetry.NoopTracerProvider, serializer)
	factory := persistenceclient.FactoryProvider(persistenceclient.NewFactoryParams{
		DataStoreFactory: dataStores,
		Cfg:              &st.persistence,
		ClusterName:      cluster,
		MetricsHandler:   metrics.NoopMetricsHandler,
		Logger:           logger,
		Serializer:       serializer,
	})
	defer factory.Close()
	manager, err := factory.NewMetadataManager()
	if err != nil {
		return fmt.Errorf("opening the %s store: %w", st.kind, err)
	}
	defer manager.Close()

	ctx, cancel := context.WithTimeout(headers.SetCallerInfo(ctx, headers.SystemOperatorCallerInfo), 30*time.Second)
	defer cancel()
	for _, name := range namespaces {
		if err := prepareNamespace(ctx, manager, name, attributes); err != nil {
			return fmt.Errorf("preparing namespace %q: %w", name, explainSQLite(err))
		}
	}
	return nil
}

func prepareNamespace(ctx context.Context, manager persistence.MetadataManager, name string, attributes map[string]enumspb.IndexedValueType) error {
	found, err := manager.GetNamespace(ctx, &persistence.GetNamespaceRequest{Name: name})
	var notFound *serviceerror.NamespaceNotFound
	switch {
	case errors.As(err, &notFound):
		aliases := map[string]string{}
		if _, err := addAliases(aliases, attributes); err != nil {
			return err
		}
		_, err := manager.CreateNamespace(ctx, &persistence.CreateNamespaceRequest{Namespace: newNamespace(name, aliases)})
		return err
	case err != nil:
		return err
	}

	detail := found.Namespace
	if detail.Config.CustomSearchAttributeAliases == nil {
		detail.Config.CustomSearchAttributeAliases = map[string]string{}
	}
	changed, err := addAliases(detail.Config.CustomSearchAttributeAliases, attributes)
	if err != nil || !changed {
		return err
	}
	metadata, err := manager.GetMetadata(ctx)
	if err != nil {
		return err
	}
	detail.ConfigVersion++
	return manager.UpdateNamespace(ctx, &persistence.UpdateNamespaceRequest{
		Namespace:           detail,
		IsGlobalNamespace:   found.IsGlobalNamespace,
		NotificationVersion: metadata.NotificationVersion,
	})
}

func newNamespace(name string, aliases map[string]string) *persistencespb.NamespaceDetail {
	return &persistencespb.NamespaceDetail{
		Info: &persistencespb.NamespaceInfo{
			Id:    uuid.NewString(),
			Name:  name,
			State: enumspb.NAMESPACE_STATE_REGISTERED,
		},
		Config: &persistencespb.NamespaceConfig{
			Retention:                    durationpb.New(retention),
			HistoryArchivalState:         enumspb.ARCHIVAL_STATE_DISABLED,
			VisibilityArchivalState:      enumspb.ARCHIVAL_STATE_DISABLED,
			CustomSearchAttributeAliases: aliases,
		},
		ReplicationConfig: &persistencespb.NamespaceReplicationConfig{
			ActiveClusterName: clusterName,
			Clusters:          []string{clusterName},
		},
		FailoverVersion:             common.EmptyVersion,
		FailoverNotificationVersion: -1,
	}
}

// addAliases assigns each attribute one of the columns that the visibility tables reserve for its
// type. aliases maps columns to attribute names.
func addAliases(aliases map[string]string, attributes map[string]enumspb.IndexedValueType) (changed bool, err error) {
	columns := sadefs.GetDBIndexSearchAttributes(nil).CustomSearchAttributes
	columnOf := map[string]string{}
	for column, alias := range aliases {
		columnOf[alias] = column
	}
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		names = append(names, name)
	}
	slices.Sort(names) // the same flags always result in the same columns
	for _, name := range names {
		want := attributes[name]
		if column, ok := columnOf[name]; ok {
			if have := columns[column]; have != want {
				return false, fmt.Errorf("search attribute %s is registered as %s, but --search-attribute specifies %s: the type cannot be changed; use another name", name, have, want)
			}
			continue
		}
		column := freeColumn(columns, aliases, want)
		if column == "" {
			return false, fmt.Errorf("search attribute %s: all database columns for type %s are in use: use fewer attributes of this type", name, want)
		}
		aliases[column] = name
		changed = true
	}
	return changed, nil
}

func freeColumn(columns map[string]enumspb.IndexedValueType, aliases map[string]string, want enumspb.IndexedValueType) string {
	free := ""
	for column, t := range columns {
		if _, taken := aliases[column]; t == want && !taken && (free == "" || column < free) {
			free = column
		}
	}
	return free
}
