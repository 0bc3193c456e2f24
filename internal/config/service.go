package config

import "time"

// Artifacts configures where the files of runs are stored.
type Artifacts struct {
	URL     string `yaml:"url" secret:"true" validate:"omitempty,storeurl" doc:"Storage URL: s3://bucket?region=…&endpoint=…&prefix=… or file:///path. Empty: a directory in the data folder."`
	MaxFile Size   `yaml:"max_file" validate:"min=1024" doc:"Maximum size of a stored file. Larger files are skipped and listed."`

	MaxCheckFiles int  `yaml:"max_check_files" validate:"min=0,max=2000" doc:"Maximum number of files to store that one check created, such as screenshots and traces. Files of failed tests come first. The others are listed, with the reason."`
	MaxCheckSize  Size `yaml:"max_check_size" validate:"min=0" doc:"Maximum total size of the files to store that one check created."`
	MaxRunFiles   int  `yaml:"max_run_files" validate:"min=0,max=1000000" doc:"Number of files of a run from which on checks store none of the files that they created, except logs."`
	MaxRunSize    Size `yaml:"max_run_size" validate:"min=0" doc:"Total size of a run's files from which on checks store none of the files that they created, except logs."`
}

// Retention configures what is deleted, and when.
type Retention struct {
	Every    time.Duration `yaml:"every" validate:"min=0,max=8760h" doc:"How often a worker cleans up; of several workers, one does. 0: only rgpt clean deletes anything. Contents that nothing refers to are always removed."`
	MaxAge   time.Duration `yaml:"max_age" validate:"min=0,max=87600h" doc:"Files of runs that ended longer ago are deleted. Such a run remains readable, but can no longer be repeated. 0: they are kept."`
	LogAge   time.Duration `yaml:"log_age" validate:"min=0,max=87600h" doc:"Logs of checks and setups of runs that ended longer ago are deleted, even if their other files are kept. 0: they are kept as long as the other files."`
	MaxSize  Size          `yaml:"max_size" validate:"min=0" doc:"Maximum total size of the files of all runs. The files of the runs that ended first are deleted until the rest fits. 0: no limit."`
	QueueAge time.Duration `yaml:"queue_age" validate:"min=0,max=87600h" doc:"Pull requests that left merge queues longer ago, and older commands to the queues, are removed from the lists of the queues. Those of runs that watch their branches are kept. 0: all are kept."`
}

// Logging configures the log's level, format and files.
type Logging struct {
	Level    string        `yaml:"level" validate:"oneof=debug info warn error" doc:"Lowest level that is logged."`
	Format   string        `yaml:"format" validate:"oneof=auto json text" doc:"Log format. auto: text on a terminal, JSON elsewhere. Files are always JSON."`
	Dir      string        `yaml:"dir" doc:"Directory for log files, one file per component. Empty: log to standard error."`
	MaxSize  Size          `yaml:"max_size" validate:"min=1048576,max=1099511627776" doc:"Size at which a log file is rotated. Files are also rotated once a day."`
	MaxAge   time.Duration `yaml:"max_age" validate:"min=24h" doc:"Age, rounded up to whole days, after which rotated files are removed."`
	MaxFiles int           `yaml:"max_files" validate:"min=1,max=10000" doc:"Maximum number of rotated files to keep per component."`
}

// Server configures the HTTP API and dashboard.
type Server struct {
	Address           string        `yaml:"address" validate:"listen" doc:"Address and port to listen on. Port 0: any free port."`
	URL               string        `yaml:"url" validate:"omitempty,httpurl,max=500" doc:"Address under which people reach the dashboard, for links in pull requests and messages. Empty: they contain no links to it." example:"https://rgpt.example.com"`
	ReadHeaderTimeout time.Duration `yaml:"read_header_timeout" validate:"min=100ms,max=1h" doc:"Maximum time to read a request's headers."`
	ReadTimeout       time.Duration `yaml:"read_timeout" validate:"min=100ms,max=1h" doc:"Maximum time to read a whole request."`
	RequestTimeout    time.Duration `yaml:"request_timeout" validate:"min=1s,max=1h" doc:"Maximum time to process a request and send the response. Does not apply to streams and downloads."`
	IdleTimeout       time.Duration `yaml:"idle_timeout" validate:"min=100ms,max=24h" doc:"How long an idle connection is kept open."`
	ShutdownTimeout   time.Duration `yaml:"shutdown_timeout" validate:"min=0,max=1h" doc:"How long open requests may take to finish when the server stops."`
	AllowedHosts      []string      `yaml:"allowed_hosts" validate:"max=100,dive,host" doc:"Additional Host header values that the server accepts, such as a proxy's name. localhost and the names and addresses that the server listens on are always accepted." example:"[rgpt.example.com]"`
	MaxBody           Size          `yaml:"max_body" validate:"min=1024,max=1073741824" doc:"Maximum size of a request body."`
	WatchInterval     time.Duration `yaml:"watch_interval" validate:"min=100ms,max=10m" doc:"How often the server refreshes the status of task queues, agents and open runs. Status data in responses and metrics is at most this old."`
	Webhooks          Webhooks      `yaml:"webhooks" doc:"Event delivery to webhooks."`
}

// Webhooks configures how events are sent to subscribers.
type Webhooks struct {
	AllowPrivate  bool          `yaml:"allow_private" doc:"Also deliver to private, loopback and link-local addresses. Enable this only if everyone who can register webhooks may access everything that the server can reach."`
	Source        string        `yaml:"source" validate:"required,max=200,urisource" doc:"CloudEvents source attribute. Use a different value for each installation that sends to the same receiver."`
	Max           int           `yaml:"max_webhooks" validate:"min=1,max=1000" doc:"Maximum number of webhooks."`
	Timeout       time.Duration `yaml:"timeout" validate:"min=100ms,max=5m" doc:"Maximum time for a receiver to respond."`
	Attempts      int           `yaml:"attempts" validate:"min=1,max=100" doc:"Maximum number of attempts per delivery. With the default waits, all attempts together take about a day."`
	FirstWait     time.Duration `yaml:"first_wait" validate:"min=10ms,max=1h" doc:"Waiting time before the second attempt. Each subsequent wait is three times as long as the previous one, plus or minus 20%."`
	LongestWait   time.Duration `yaml:"longest_wait" validate:"min=10ms,max=168h" doc:"Maximum wait between attempts, even if a receiver requests a longer one (Retry-After)."`
	MaxConcurrent int           `yaml:"max_concurrent" validate:"min=2,max=1000" doc:"Maximum number of concurrent deliveries per server. At most half of these deliveries go to failing webhooks."`
	MaxEach       int           `yaml:"max_concurrent_each" validate:"min=1,max=100" doc:"Maximum number of concurrent deliveries per webhook. A failing webhook is limited to one delivery at a time."`
	DisableAfter  time.Duration `yaml:"disable_after" validate:"min=1m,max=8760h" doc:"A webhook whose deliveries have all failed for this long is disabled."`
	Retention     time.Duration `yaml:"retention" validate:"min=1h,max=8760h" doc:"How long the delivery log is kept."`
}

// Temporal configures the connection to the Temporal service.
type Temporal struct {
	Address   string      `yaml:"address" validate:"hostport" doc:"Host and port of the Temporal frontend."`
	Namespace string      `yaml:"namespace" validate:"required" doc:"Temporal namespace for the workflows."`
	APIKeyEnv string      `yaml:"api_key_env" secret:"true" validate:"omitempty,envname" doc:"Name of the environment variable that contains an API key. An API key requires TLS."`
	TLS       TemporalTLS `yaml:"tls" doc:"TLS settings for the connection."`
}

// TemporalTLS configures the encryption of the connection to Temporal.
type TemporalTLS struct {
	Enabled    bool   `yaml:"enabled" doc:"Use TLS."`
	CAFile     string `yaml:"ca_file" doc:"PEM file with the trusted CA certificates. Empty: the system's certificates."`
	CertFile   string `yaml:"cert_file" doc:"PEM file with the client certificate."`
	KeyFile    string `yaml:"key_file" doc:"PEM file with the client's private key."`
	ServerName string `yaml:"server_name" doc:"Name that the server's certificate must have. Empty: the host in temporal.address."`
}

// Worker configures the processes that execute workflows and activities.
type Worker struct {
	MaxConcurrentActivities    int           `yaml:"max_concurrent_activities" validate:"min=1,max=10000" doc:"Maximum number of concurrent activities of each other role, and of concurrent local activities of each role."`
	MaxConcurrentTurns         int           `yaml:"max_concurrent_turns" validate:"min=1,max=10000" doc:"Maximum number of concurrent activities of each role whose activities mostly wait, for a model or for a free core: planner, builder, tester and repair."`
	MaxWorkingActivities       int           `yaml:"max_working_activities" validate:"min=0,max=10000" doc:"Maximum number of activities that work at the same time, instead of waiting for a model. Others wait, for at most 5s, those of the project with the fewest first, then those of its oldest run. An activity counts for 250ms; after that, it is assumed to wait for something else. So workflow tasks, and with them people's commands, do not have to wait until hundreds of activities have worked. 0: four for each core."`
	MaxConcurrentCommands      int           `yaml:"max_concurrent_commands" validate:"min=0,max=10000" doc:"Maximum number of checks, and commands of agents, that run at the same time. Others wait, those of the project with the fewest first, then those of its oldest run. 0: four for each core."`
	MaxConcurrentWorkflowTasks int           `yaml:"max_concurrent_workflow_tasks" validate:"min=2,max=10000" doc:"Maximum number of concurrent workflow tasks per role."`
	EagerActivities            bool          `yaml:"eager_activities" doc:"Start activities on the worker that has the run's workflow if it has the role: they come with Temporal's response to the workflow task instead of through a queue. Up to half of the concurrent activities of each role but run start that way, and none of a role that may have fewer than 8. Checks and setups do not while all cores of the worker are taken."`
	CachedWorkflows            int           `yaml:"cached_workflows" validate:"min=0,max=100000" doc:"Maximum number of workflows to keep in memory between tasks. 0: none; each task then replays the whole history, which is slow."`
	SpareDirectories           int           `yaml:"spare_directories" validate:"min=0,max=1000" doc:"Maximum number of working directories of readers, and of ended runs, agents and checks, that are kept for each repository, so that the next one changes some files instead of writing all of them. Only directories are kept in which no command ran, or in which everything that the commands of a check changed was undone, for at most 14 days, and none below worker.spare_free. 0: none, and what only reads files of a commit fills a directory each time."`
	SpareFree                  Size          `yaml:"spare_free" validate:"min=0" doc:"Free disk space below which no working directories are kept for later runs, and only one of each repository for readers, for about ten minutes."`
	TurnsTime                  time.Duration `yaml:"turns_time" validate:"min=0,max=20s" doc:"How long an activity may go on with an agent's next turn, a model call and its tool calls, when nothing has to be decided in between. Each turn beyond the first saves the cost of an activity in Temporal. A turn that has begun is finished. 0: each turn is an activity."`
	StopTimeout                time.Duration `yaml:"stop_timeout" validate:"min=0,max=1h" doc:"How long activities may continue when the worker stops. The last third of this time, at most 3s, is reserved for reporting unfinished activities to Temporal."`
	LostAttempts               int           `yaml:"lost_attempts" validate:"min=1,max=1000" doc:"Maximum number of times that an activity may start without finishing (because it kills its worker or times out). After that, it is not retried, and a person is asked."`
	HeartbeatsPerSecond        int           `yaml:"heartbeats_per_second" validate:"min=1,max=100000" doc:"How many heartbeats per second a worker lets the activities of its workflows send together, as far as worker.longest_heartbeat_timeout allows. Each activity sends three per time-out. The time-out is 2s, and longer for activities that a workflow schedules while many are in progress on its worker."`
	LongestHeartbeatTimeout    time.Duration `yaml:"longest_heartbeat_timeout" validate:"min=2s,max=10m" doc:"Longest time after which Temporal notices that a worker with many activities in progress has died."`
	MetricsAddress             string        `yaml:"metrics_address" validate:"omitempty,listen" doc:"Address and port for /metrics and /healthz. Empty: neither is served."`
	Heartbeat                  time.Duration `yaml:"heartbeat" validate:"min=100ms,max=10m" doc:"How often the worker sends a heartbeat for its agents. An agent that misses three heartbeats is unhealthy."`
	OfflineAfter               time.Duration `yaml:"offline_after" validate:"min=1s,max=24h" doc:"Time without a heartbeat after which an unhealthy agent is considered offline."`
	AgentRetention             time.Duration `yaml:"agent_retention" validate:"min=1m,max=8760h" doc:"How long offline agents are kept in the list."`
	ProbeInterval              time.Duration `yaml:"probe_interval" validate:"min=100ms,max=1h" doc:"How often the worker checks the resources that its agents need: Temporal, git, sandbox, models, disk space."`
	Roles                      []string      `yaml:"roles" validate:"dive,oneof=run planner builder tester releaser analyzer repair" doc:"This worker's roles: run, planner, builder, tester, releaser, analyzer, repair. Empty: all. The analyzer is not used yet."`
}

// Database configures the connection to the PostgreSQL database.
type Database struct {
	URL          string `yaml:"url" secret:"true" validate:"omitempty,postgresurl" doc:"Connection URL: postgres://user:password@host:5432/name. Prefer DATABASE_URL to storing the URL in a file. Empty: rgpt dev starts its own database."`
	PasswordFile string `yaml:"password_file" doc:"File that contains the password, such as a Docker or Kubernetes secret. Used if database.url has no password."`
	MaxConns     int    `yaml:"max_conns" validate:"min=2,max=1000" doc:"Maximum number of connections per process."`
}
