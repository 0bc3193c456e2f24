package config

import "time"

// Artifacts says where the files of runs are stored.
type Artifacts struct {
	URL     string `yaml:"url" secret:"true" validate:"omitempty,storeurl" doc:"s3://bucket?region=…&endpoint=…&prefix=… or file:///path. Empty: a directory in the data folder."`
	MaxFile Size   `yaml:"max_file" validate:"min=1024" doc:"Largest file that is kept; larger ones are left out and named."`
}

// Logging says what is logged, how and where.
type Logging struct {
	Level    string        `yaml:"level" validate:"oneof=debug info warn error" doc:"Least important level that is logged."`
	Format   string        `yaml:"format" validate:"oneof=auto json text" doc:"auto is text on a terminal and JSON elsewhere. Files are always JSON."`
	Dir      string        `yaml:"dir" doc:"Folder of log files, one for each component. Empty: log to standard error."`
	MaxSize  Size          `yaml:"max_size" validate:"min=1048576,max=1099511627776" doc:"A log file that reaches this size is rotated, and each at least once a day."`
	MaxAge   time.Duration `yaml:"max_age" validate:"min=24h" doc:"Rotated files older than this are removed; counted in whole days."`
	MaxFiles int           `yaml:"max_files" validate:"min=1,max=10000" doc:"Rotated files of each component that are kept."`
}

// Server is the HTTP API and dashboard.
type Server struct {
	Address           string        `yaml:"address" validate:"listen" doc:"Address and port to listen on. Port 0 takes a free one."`
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout" validate:"min=100ms,max=1h" doc:"Longest time for the header of a request."`
	ReadTimeout       time.Duration `yaml:"read_timeout" validate:"min=100ms,max=1h" doc:"Longest time until a whole request has come in."`
	RequestTimeout    time.Duration `yaml:"request_timeout" validate:"min=1s,max=1h" doc:"Longest time for doing what is asked and sending the answer. Streams and downloads go on for as long as the client takes them."`
	IdleTimeout       time.Duration `yaml:"idle_timeout" validate:"min=100ms,max=24h" doc:"How long an idle connection is kept."`
	ShutdownTimeout   time.Duration `yaml:"shutdown_timeout" validate:"min=0,max=1h" doc:"How long requests under way may take when the server stops."`
	AllowedHosts      []string      `yaml:"allowed_hosts" validate:"max=100,dive,host" doc:"More names by which the server may be asked for, such as that of a proxy. localhost and the names and addresses it listens on always count." example:"[rgpt.example.com]"`
	MaxBody           Size          `yaml:"max_body" validate:"min=1024,max=1073741824" doc:"Largest request body."`
	WatchInterval     time.Duration `yaml:"watch_interval" validate:"min=100ms,max=10m" doc:"How often the server looks at task queues, agents and open runs: what its answers and metrics say of them is at most that old."`
	Webhooks          Webhooks      `yaml:"webhooks" doc:"How events are sent to webhooks."`
}

// Webhooks says how events are sent to subscribers.
type Webhooks struct {
	AllowPrivate  bool          `yaml:"allow_private" doc:"Send to private, loopback and link-local addresses too. Only where whoever may register webhooks may reach whatever the server reaches."`
	Source        string        `yaml:"source" validate:"required,max=200,urisource" doc:"Source of the CloudEvents. Give each installation that sends to the same receiver its own."`
	Max           int           `yaml:"max_webhooks" validate:"min=1,max=1000" doc:"Webhooks there may be."`
	Timeout       time.Duration `yaml:"timeout" validate:"min=100ms,max=5m" doc:"How long a receiver may take to answer."`
	Attempts      int           `yaml:"attempts" validate:"min=1,max=100" doc:"Attempts of each delivery. With the waits of the default they cover about a day."`
	FirstWait     time.Duration `yaml:"first_wait" validate:"min=10ms,max=1h" doc:"Wait before the second attempt. Each wait that follows is three times as long, give or take a fifth."`
	LongestWait   time.Duration `yaml:"longest_wait" validate:"min=10ms,max=168h" doc:"Longest wait between attempts, also where a receiver asks for more (Retry-After)."`
	MaxConcurrent int           `yaml:"max_concurrent" validate:"min=2,max=1000" doc:"Deliveries of one server at the same time. Half of them at most to webhooks that fail."`
	MaxEach       int           `yaml:"max_concurrent_each" validate:"min=1,max=100" doc:"Of these, to the same webhook. One that fails gets one."`
	DisableAfter  time.Duration `yaml:"disable_after" validate:"min=1m,max=8760h" doc:"A webhook that fails for so long without a success is disabled."`
	Retention     time.Duration `yaml:"retention" validate:"min=1h,max=8760h" doc:"How long the log of deliveries is kept."`
}

// Temporal is the Temporal service.
type Temporal struct {
	Address   string      `yaml:"address" validate:"hostport" doc:"Address of the frontend."`
	Namespace string      `yaml:"namespace" validate:"required" doc:"Namespace of the workflows."`
	APIKeyEnv string      `yaml:"api_key_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that holds an API key. A key needs TLS."`
	TLS       TemporalTLS `yaml:"tls" doc:"Encryption of the connection."`
}

// TemporalTLS is the encryption of the connection to Temporal.
type TemporalTLS struct {
	Enabled    bool   `yaml:"enabled" doc:"Use TLS."`
	CAFile     string `yaml:"ca_file" doc:"Certificates to trust, PEM. Empty: those of the system."`
	CertFile   string `yaml:"cert_file" doc:"Certificate of this client, PEM."`
	KeyFile    string `yaml:"key_file" doc:"Key of this client, PEM."`
	ServerName string `yaml:"server_name" doc:"Name that the server's certificate must have. Empty: that of the address."`
}

// Worker is a process that carries out workflows and activities.
type Worker struct {
	MaxConcurrentActivities    int           `yaml:"max_concurrent_activities" validate:"min=1,max=10000" doc:"Activities at the same time, for each role."`
	MaxConcurrentWorkflowTasks int           `yaml:"max_concurrent_workflow_tasks" validate:"min=2,max=10000" doc:"Workflow tasks at the same time, for each role."`
	CachedWorkflows            int           `yaml:"cached_workflows" validate:"min=0,max=100000" doc:"Workflows that are kept in memory between their tasks. 0: none; each task does the whole history again, which is slow."`
	StopTimeout                time.Duration `yaml:"stop_timeout" validate:"min=0,max=1h" doc:"How long activities may go on when the worker is told to stop. The last third of it, at most 3s, is for telling Temporal what was not finished."`
	LostAttempts               int           `yaml:"lost_attempts" validate:"min=1,max=1000" doc:"How often work may be begun without any worker coming to its end, because it kills them or takes longer than it may. Then it is not tried again, and a person is asked."`
	MetricsAddress             string        `yaml:"metrics_address" validate:"omitempty,listen" doc:"Address and port on which the worker serves /metrics and /healthz. Empty: it serves nothing."`
	Heartbeat                  time.Duration `yaml:"heartbeat" validate:"min=100ms,max=10m" doc:"How often the worker says that its agents are there. One that misses three heartbeats is unhealthy."`
	OfflineAfter               time.Duration `yaml:"offline_after" validate:"min=1s,max=24h" doc:"Silence after which an agent counts as offline, though never before it is unhealthy."`
	AgentRetention             time.Duration `yaml:"agent_retention" validate:"min=1m,max=8760h" doc:"How long agents that are offline are remembered."`
	ProbeInterval              time.Duration `yaml:"probe_interval" validate:"min=100ms,max=1h" doc:"How often the worker looks whether its agents have what their work needs: Temporal, git, sandbox, models, room on the disk."`
	Roles                      []string      `yaml:"roles" validate:"dive,oneof=run planner builder tester releaser analyzer repair" doc:"What this worker does: run, planner, builder, tester, releaser, analyzer, repair. Empty: everything."`
}

// Database is the PostgreSQL database.
type Database struct {
	URL          string `yaml:"url" secret:"true" validate:"omitempty,postgresurl" doc:"Connection URL: postgres://user:password@host:5432/name. Better given as DATABASE_URL than in a file. Empty: rgpt dev starts its own."`
	PasswordFile string `yaml:"password_file" doc:"File that holds the password, where database.url has none: a secret of Docker or Kubernetes."`
	MaxConns     int    `yaml:"max_conns" validate:"min=2,max=1000" doc:"Connections of one process at the same time."`
}
