package main

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/server/common/dynamicconfig"
	"gopkg.in/yaml.v3"
)

// noLimit stands for "as fast as it goes" where a rate has to be a number.
const noLimit = 1_000_000

type dynamicConfigValue struct {
	setting dynamicconfig.GenericSetting
	value   any
}

// builtinDynamicConfigValues is what suits one developer's machine: few cores, few
// workflows, every millisecond of a single run visible. Temporal's own values
// are made for clusters with many tenants.
func builtinDynamicConfigValues() []dynamicConfigValue {
	return append(builtinSizes(), []dynamicConfigValue{
		// Every workflow step is a task that a queue processor reads from the
		// database. With the default of 20 reads a second for each queue, a run
		// with more steps than that waits for the limiter, not for work: 600 ms
		// instead of 200 ms for 12 activities one after another.
		{dynamicconfig.TransferProcessorMaxPollRPS, noLimit},
		{dynamicconfig.TimerProcessorMaxPollRPS, noLimit},
		{dynamicconfig.OutboundProcessorMaxPollRPS, noLimit},
		{dynamicconfig.VisibilityProcessorMaxPollRPS, noLimit}, // also: lists show a run as soon as it starts

		// The HTTP API answers to this machine's own names alone: a web site whose name
		// leads here (DNS rebinding) would read all histories with it.
		{dynamicconfig.FrontendHTTPAllowedHosts, []any{"localhost", "localhost:*", "127.0.0.1", "127.0.0.1:*", "[::1]", "[::1]:*"}},

		// A timer that is due sooner than this is late by as much: the second of
		// the default allows for the clocks of different hosts. It came on top of
		// each retry after 100 ms, and of noticing that a worker died.
		{dynamicconfig.TimerProcessorMaxTimeShift, 50 * time.Millisecond},

		// Limits between tenants and services. Here all load is one user's
		// own, and a refused request would only look like a slow server.
		{dynamicconfig.FrontendRPS, noLimit},
		{dynamicconfig.FrontendMaxNamespaceRPSPerInstance, noLimit},
		{dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance, noLimit},                       // default 10 a second: a test that polls a list exceeds it
		{dynamicconfig.FrontendMaxConcurrentLongRunningRequestsPerInstance, noLimit},                // long polls of many workers
		{dynamicconfig.FrontendNamespaceReplicationInducingAPIsRPS, noLimit},                        // registering namespaces and
		{dynamicconfig.FrontendMaxNamespaceNamespaceReplicationInducingAPIsRPSPerInstance, noLimit}, // search attributes, 1 a second by default
		{dynamicconfig.FrontendGlobalNamespaceNamespaceReplicationInducingAPIsRPS, noLimit},
		{dynamicconfig.FrontendGlobalWorkerDeploymentReadRPS, noLimit},
		{dynamicconfig.MatchingRPS, noLimit},
		{dynamicconfig.HistoryRPS, noLimit},
		{dynamicconfig.FrontendPersistenceMaxQPS, noLimit},
		{dynamicconfig.MatchingPersistenceMaxQPS, noLimit},
		{dynamicconfig.HistoryPersistenceMaxQPS, noLimit},
		{dynamicconfig.WorkerPersistenceMaxQPS, noLimit},
		{dynamicconfig.VisibilityPersistenceMaxReadQPS, noLimit},
		{dynamicconfig.VisibilityPersistenceMaxWriteQPS, noLimit},

		// Partitions spread a task queue over hosts. On one host they only add
		// forwarding between a task in one partition and a poller in another.
		{dynamicconfig.MatchingNumTaskqueueReadPartitions, 1},
		{dynamicconfig.MatchingNumTaskqueueWritePartitions, 1},

		// Namespaces, and their search attributes, that are registered through
		// the API are there within half a second in all services, not two.
		//
		// ForceSearchAttributesCacheRefreshOnRead would make it at once, and
		// must stay off: it reads the namespace from the database with every
		// request, and takes a failure of that read for "namespace not found".
		// Clients and queue processors do not retry that. While a Postgres
		// restarts, it would turn a wait into failures.
		{dynamicconfig.NamespaceCacheRefreshInterval, 500 * time.Millisecond},

		// A worker that stops hands its open polls back, so that no task is
		// given to a worker which is no longer there, to wait for a time-out.
		{dynamicconfig.EnableCancelWorkerPollsOnShutdown, true},

		// On by default in this version. Written down because the product
		// relies on them: replay by reset of a run with child workflows, and
		// the list of live workers.
		{dynamicconfig.AllowResetWithPendingChildren, true},
		{dynamicconfig.WorkerHeartbeatsEnabled, true},

		// Scavengers look after large databases of long-lived clusters.
		{dynamicconfig.TaskQueueScannerEnabled, false},
		{dynamicconfig.HistoryScannerEnabled, false},

		// A busy laptop or a suspended one looks like a deadlock. A dump of all
		// goroutines into the log helps nobody there.
		{dynamicconfig.DeadlockDumpGoroutines, false},

		// A development server asks nothing of the internet.
		{dynamicconfig.EnableServerVersionCheck, false},
	}...)
}

// builtinSizes fits caches and pools of goroutines to one machine.
func builtinSizes() []dynamicConfigValue {
	return []dynamicConfigValue{
		// Caches count entries, and an entry (a workflow's state) may be large.
		// The default of 128000 would let a long session grow by gigabytes.
		{dynamicconfig.HistoryCacheHostLevelMaxSize, 4096},
		// For each shard; the default of 512 KiB holds less than a few runs
		// with large events, which are then read again for every task.
		{dynamicconfig.EventsCacheMaxSizeBytes, 4 << 20},

		// Goroutines that stand ready, 512 for each queue by default. They wait
		// for the database, so a few more than its connections are enough.
		{dynamicconfig.TransferProcessorSchedulerWorkerCount, 64},
		{dynamicconfig.TimerProcessorSchedulerWorkerCount, 64},
		{dynamicconfig.VisibilityProcessorSchedulerWorkerCount, 64},
		{dynamicconfig.MemoryTimerProcessorSchedulerWorkerCount, 16},
		{dynamicconfig.ReplicationProcessorSchedulerWorkerCount, 1}, // there is no other cluster
	}
}

// dynamicConfig is the built-in dynamic config with the given KEY=JSON values
// over it. It refuses keys that the server does not know and values of the
// wrong type: the server itself would ignore both without a word.
func dynamicConfig(overrides []string) (dynamicconfig.StaticClient, error) {
	client := dynamicconfig.StaticClient{}
	for _, builtin := range builtinDynamicConfigValues() {
		client[builtin.setting.Key()] = builtin.value
	}
	for _, override := range overrides {
		name, value, ok := strings.Cut(override, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--dynamic-config-value %q: expected KEY=JSON, such as frontend.rps=100", override)
		}
		// JSON is YAML, and YAML's reader keeps whole numbers whole, which the
		// server insists on.
		var parsed any
		if err := yaml.Unmarshal([]byte(value), &parsed); err != nil || parsed == nil {
			return nil, fmt.Errorf("--dynamic-config-value %q: %q is not a JSON value", override, value)
		}
		content, err := yaml.Marshal([]map[string]any{{"value": parsed}})
		if err != nil {
			return nil, fmt.Errorf("--dynamic-config-value %q: %w", override, err)
		}
		var loader dynamicconfig.YamlLoader
		key := dynamicconfig.MakeKey(name)
		loader.LoadValue(key, content)
		for _, problem := range append(loader.Errors, loader.Warnings...) {
			return nil, fmt.Errorf("--dynamic-config-value %q: %w: check the spelling of the key and the type of the value", override, problem)
		}
		client[key] = loader.Map[key]
	}
	return client, nil
}
