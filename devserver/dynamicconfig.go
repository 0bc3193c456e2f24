package main

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/server/common/dynamicconfig"
	"gopkg.in/yaml.v3"
)

// noLimit is a rate that never limits, for settings that require a number.
const noLimit = 1_000_000

type dynamicConfigValue struct {
	setting dynamicconfig.GenericSetting
	value   any
}

// builtinDynamicConfigValues returns values for one developer's machine, which has few cores and
// few workflows, and where every millisecond of a single run is noticeable. Temporal's defaults are
// meant for clusters with many tenants.
func builtinDynamicConfigValues() []dynamicConfigValue {
	return append(builtinSizes(), []dynamicConfigValue{
		// Every workflow step is a task that a queue processor reads from the database. With the
		// default of 20 reads per second for each queue, a run with more steps waits for the rate
		// limiter: 12 sequential activities take 600 ms instead of 200 ms.
		{dynamicconfig.TransferProcessorMaxPollRPS, noLimit},
		{dynamicconfig.TimerProcessorMaxPollRPS, noLimit},
		{dynamicconfig.OutboundProcessorMaxPollRPS, noLimit},
		{dynamicconfig.VisibilityProcessorMaxPollRPS, noLimit}, // also lets lists show a run as soon as it starts

		// The HTTP API accepts only this machine's own names. Otherwise, a web site whose name
		// resolves to this machine (DNS rebinding) could read all histories.
		{dynamicconfig.FrontendHTTPAllowedHosts, []any{"localhost", "localhost:*", "127.0.0.1", "127.0.0.1:*", "[::1]", "[::1]:*"}},

		// Timers can fire late by up to this time. The default of one second allows for clock
		// differences between hosts; it would delay each retry after 100 ms, and the detection of a
		// dead worker.
		{dynamicconfig.TimerProcessorMaxTimeShift, 50 * time.Millisecond},

		// Limits between tenants and services. Here, all load comes from one user, and a rejected
		// request would only look like a slow server.
		{dynamicconfig.FrontendRPS, noLimit},
		{dynamicconfig.FrontendMaxNamespaceRPSPerInstance, noLimit},
		{dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance, noLimit},                       // default 10 per second, which a test that polls a list exceeds
		{dynamicconfig.FrontendMaxConcurrentLongRunningRequestsPerInstance, noLimit},                // long polls of many workers
		{dynamicconfig.FrontendNamespaceReplicationInducingAPIsRPS, noLimit},                        // registering namespaces and
		{dynamicconfig.FrontendMaxNamespaceNamespaceReplicationInducingAPIsRPSPerInstance, noLimit}, // search attributes, 1 per second by default
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

		// Partitions distribute a task queue over hosts. On one host, they only add forwarding
		// between partitions.
		{dynamicconfig.MatchingNumTaskqueueReadPartitions, 1},
		{dynamicconfig.MatchingNumTaskqueueWritePartitions, 1},

		// Namespaces and search attributes that are registered through the API become available in
		// all services within half a second instead of two.
		//
		// ForceSearchAttributesCacheRefreshOnRead would make them available immediately, but must
		// stay off: it reads the namespace from the database for every request, and treats a failed
		// read as "namespace not found", which clients and queue processors do not retry. While
		// Postgres restarts, requests would fail instead of waiting.
		{dynamicconfig.NamespaceCacheRefreshInterval, 500 * time.Millisecond},

		// A stopping worker cancels its open polls, so no task is assigned to a stopped worker,
		// where it would wait for a timeout.
		{dynamicconfig.EnableCancelWorkerPollsOnShutdown, true},

		// On by default in this version. Set explicitly because the product relies on them: for
		// replaying a run with child workflows by a reset, and for the list of live workers.
		{dynamicconfig.AllowResetWithPendingChildren, true},
		{dynamicconfig.WorkerHeartbeatsEnabled, true},

		// Scavengers are meant for large databases of long-lived clusters.
		{dynamicconfig.TaskQueueScannerEnabled, false},
		{dynamicconfig.HistoryScannerEnabled, false},

		// A busy or suspended laptop looks like a deadlock. A dump of all goroutines in the log
		// would not help.
		{dynamicconfig.DeadlockDumpGoroutines, false},

		// A development server does not access the internet.
		{dynamicconfig.EnableServerVersionCheck, false},
	}...)
}

// builtinSizes returns sizes of caches and goroutine pools for one machine.
func builtinSizes() []dynamicConfigValue {
	return []dynamicConfigValue{
		// Caches count entries, and an entry (a workflow's state) may be large. With the default of
		// 128000, memory could grow by gigabytes in a long session.
		{dynamicconfig.HistoryCacheHostLevelMaxSize, 4096},
		// Per shard. The default of 512 KiB is too small for a few runs with large events, which
		// would be read again for every task.
		{dynamicconfig.EventsCacheMaxSizeBytes, 4 << 20},

		// Idle goroutines, 512 for each queue by default. They wait for the database, so slightly
		// more than its connections are enough.
		{dynamicconfig.TransferProcessorSchedulerWorkerCount, 64},
		{dynamicconfig.TimerProcessorSchedulerWorkerCount, 64},
		{dynamicconfig.VisibilityProcessorSchedulerWorkerCount, 64},
		{dynamicconfig.MemoryTimerProcessorSchedulerWorkerCount, 16},
		{dynamicconfig.ReplicationProcessorSchedulerWorkerCount, 1}, // there is no other cluster
	}
}

// dynamicConfig returns the built-in dynamic config, overridden by the given KEY=JSON values. It
// rejects unknown keys and values of the wrong type, which the server itself would silently ignore.
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
		// JSON is valid YAML, and the YAML decoder keeps integers as integers, which the server
		// requires.
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
