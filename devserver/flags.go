package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	uiversion "github.com/temporalio/ui-server/v2/server/version"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/headers"
	"go.temporal.io/server/common/searchattribute/sadefs"
)

const (
	defaultPort      = 7233
	defaultNamespace = "default"
	uiPortOffset     = 1000

	// postgresEnv is the variable with the Postgres URL. It keeps the password out of the command
	// line, which every user of the machine can read.
	postgresEnv = "TEMPORAL_DEVSERVER_POSTGRES"

	// dynamicConfigEnv is the variable with dynamic config values, for use when another program
	// builds the command line; values of the flag override them.
	dynamicConfigEnv = "TEMPORAL_DEVSERVER_DYNAMIC_CONFIG"
)

// Options are the validated flags. A port of 0 means a free port, which is chosen at start.
type Options struct {
	IP       string
	Port     int
	HTTPPort int

	UIIP     string
	UIPort   int
	Headless bool

	MetricsPort int

	Namespaces       []string
	SearchAttributes map[string]enumspb.IndexedValueType
	DynamicConfig    []string

	DatabaseFile         string
	Postgres             string
	PostgresDB           string
	PostgresVisibilityDB string

	LogLevel  slog.Level
	LogFormat string

	ReadyFile   string
	ShowVersion bool
}

// rawFlags holds the values that need checking before they become Options.
type rawFlags struct {
	opts             Options
	namespaces       []string
	searchAttributes []string
	logLevel         string
}

func newFlagSet(raw *rawFlags) *pflag.FlagSet {
	fs := pflag.NewFlagSet("temporal-devserver", pflag.ContinueOnError)
	fs.SortFlags = false
	fs.Usage = func() {} // run prints the help, on standard output
	o := &raw.opts

	fs.StringVar(&o.IP, "ip", "127.0.0.1", "`address` that the gRPC and HTTP frontend listens on")
	fs.IntVarP(&o.Port, "port", "p", defaultPort, "`port` of the gRPC frontend; 0 for a free port")
	fs.IntVar(&o.HTTPPort, "http-port", 0, "`port` of Temporal's HTTP API; 0 for a free port")
	fs.StringVar(&o.UIIP, "ui-ip", "", "`address` that the Web UI listens on (default: the value of --ip)")
	fs.IntVar(&o.UIPort, "ui-port", 0, "`port` of the Web UI (default: --port + 1000, or a free port with --port 0); 0 for a free port")
	fs.BoolVar(&o.Headless, "headless", false, "run without the Web UI")
	fs.IntVar(&o.MetricsPort, "metrics-port", 0, "`port` on which /metrics serves Prometheus metrics (default: none)")

	fs.StringVarP(&o.DatabaseFile, "db-filename", "f", "", "SQLite `file` that stores the state, created if it does not exist (default: in memory, lost on exit)")
	fs.StringVar(&o.Postgres, "postgres", "", "`URL` of a Postgres server that stores the state; databases and schema are created and upgraded as needed. "+
		"The environment variable "+postgresEnv+" has the same effect and keeps the password out of the process list")
	fs.StringVar(&o.PostgresDB, "postgres-db", "temporal", "`name` of the Postgres database for executions")
	fs.StringVar(&o.PostgresVisibilityDB, "postgres-visibility-db", "temporal_visibility", "`name` of the Postgres database for visibility (lists and search)")

	fs.StringArrayVarP(&raw.namespaces, "namespace", "n", nil, "`namespace` to create unless it exists; repeatable; \"default\" always exists")
	fs.StringArrayVar(&raw.searchAttributes, "search-attribute", nil, "search attribute to register in \"default\" and every --namespace, as `Name=Type`; repeatable; "+
		"types: "+strings.Join(searchAttributeTypes(), ", "))
	fs.StringArrayVar(&o.DynamicConfig, "dynamic-config-value", nil, "dynamic config value as `KEY=JSON`, e.g. frontend.rps=100; repeatable; overrides the built-in values. "+
		"The environment variable "+dynamicConfigEnv+" can contain more values, one per line")

	fs.StringVar(&raw.logLevel, "log-level", "warn", "`level` of the server's log on standard error: debug, info, warn, error or never")
	fs.StringVar(&o.LogFormat, "log-format", "text", "`format` of the log: text or json")
	fs.StringVar(&o.ReadyFile, "ready-file", "", "JSON `file` with the pid and addresses, written when everything is ready and removed on exit")
	fs.BoolVarP(&o.ShowVersion, "version", "v", false, "print the versions and exit")
	return fs
}

// parseFlags parses and validates a command line.
func parseFlags(args []string, getenv func(string) string) (Options, error) {
	var raw rawFlags
	fs := newFlagSet(&raw)
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return Options{}, err
		}
		return Options{}, fmt.Errorf("reading the command line: %w; see temporal-devserver --help", err)
	}
	if rest := fs.Args(); len(rest) > 0 {
		return Options{}, fmt.Errorf("reading the command line: unexpected argument %q: only flags are accepted; see temporal-devserver --help", rest[0])
	}
	opts := raw.opts
	if opts.ShowVersion {
		return opts, nil
	}

	for _, a := range []struct{ flag, ip string }{{"ip", opts.IP}, {"ui-ip", opts.UIIP}} {
		if a.ip != "" && net.ParseIP(a.ip) == nil {
			return Options{}, fmt.Errorf("--%s %q is not an IP address: use an address such as 127.0.0.1 or 0.0.0.0", a.flag, a.ip)
		}
	}
	opts.UIIP = cmp.Or(opts.UIIP, opts.IP)
	if !fs.Changed("ui-port") && opts.Port != 0 {
		opts.UIPort = opts.Port + uiPortOffset
		if opts.UIPort > 65535 && !opts.Headless {
			return Options{}, fmt.Errorf("--port %d leaves no valid port for the Web UI (%d): set --ui-port, or use --headless", opts.Port, opts.UIPort)
		}
	}
	if err := checkPortNumbers(opts); err != nil {
		return Options{}, err
	}

	opts.DynamicConfig = append(strings.FieldsFunc(getenv(dynamicConfigEnv), func(r rune) bool { return r == '\n' }), opts.DynamicConfig...)
	if err := chooseStore(&opts, getenv); err != nil {
		return Options{}, err
	}
	var err error
	if opts.Namespaces, err = parseNamespaces(raw.namespaces); err != nil {
		return Options{}, err
	}
	if opts.SearchAttributes, err = parseSearchAttributes(raw.searchAttributes); err != nil {
		return Options{}, err
	}
	if _, err := dynamicConfig(opts.DynamicConfig); err != nil {
		return Options{}, err
	}
	if opts.LogLevel, err = parseLogLevel(raw.logLevel); err != nil {
		return Options{}, err
	}
	if opts.LogFormat != "text" && opts.LogFormat != "json" {
		return Options{}, fmt.Errorf("--log-format %q is invalid: use text or json", opts.LogFormat)
	}
	return opts, nil
}

func chooseStore(o *Options, getenv func(string) string) error {
	if o.Postgres != "" && o.DatabaseFile != "" {
		return errors.New("--postgres and --db-filename cannot be used together: choose one")
	}
	if o.DatabaseFile == "" {
		o.Postgres = cmp.Or(o.Postgres, getenv(postgresEnv))
	}
	if o.Postgres != "" && (o.PostgresDB == "" || o.PostgresVisibilityDB == "" || o.PostgresDB == o.PostgresVisibilityDB) {
		return fmt.Errorf("--postgres-db %q and --postgres-visibility-db %q must be different: both schemas have tables with the same names", o.PostgresDB, o.PostgresVisibilityDB)
	}
	return nil
}

func parseNamespaces(names []string) ([]string, error) {
	namespaces := []string{defaultNamespace}
	for _, name := range names {
		if name == "" || strings.HasPrefix(name, "temporal-") {
			return nil, fmt.Errorf("--namespace %q: a name must not be empty or begin with \"temporal-\", which is reserved for the server", name)
		}
		if !slices.Contains(namespaces, name) {
			namespaces = append(namespaces, name)
		}
	}
	return namespaces, nil
}

func parseLogLevel(name string) (level slog.Level, err error) {
	if name == "never" {
		return logNever, nil
	}
	if err := level.UnmarshalText([]byte(name)); err != nil {
		return 0, fmt.Errorf("--log-level %q is invalid: use debug, info, warn, error or never", name)
	}
	return level, nil
}

func checkPortNumbers(o Options) error {
	seen := map[int]string{}
	for _, p := range []struct {
		flag string
		port int
		used bool
	}{
		{"port", o.Port, true},
		{"http-port", o.HTTPPort, true},
		{"ui-port", o.UIPort, !o.Headless},
		{"metrics-port", o.MetricsPort, true},
	} {
		if !p.used || p.port == 0 {
			continue
		}
		if p.port < 0 || p.port > 65535 {
			return fmt.Errorf("--%s %d is not a port: use 1 to 65535, or 0 for a free port", p.flag, p.port)
		}
		if other, taken := seen[p.port]; taken {
			return fmt.Errorf("--%s and --%s are both %d: use different ports", other, p.flag, p.port)
		}
		seen[p.port] = p.flag
	}
	return nil
}

// searchAttributeName is stricter than the server, which accepts any string, because other
// characters would have to be quoted in every list query.
var searchAttributeName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

func parseSearchAttributes(values []string) (map[string]enumspb.IndexedValueType, error) {
	attributes := map[string]enumspb.IndexedValueType{}
	for _, v := range values {
		name, typeName, ok := strings.Cut(v, "=")
		if !ok || !searchAttributeName.MatchString(name) {
			return nil, fmt.Errorf("--search-attribute %q: expected Name=Type, where the name contains only letters, digits, _ and -", v)
		}
		if sadefs.IsReserved(name) {
			return nil, fmt.Errorf("--search-attribute %q: %s is a built-in attribute: choose another name", v, name)
		}
		t, err := enumspb.IndexedValueTypeFromString(typeName)
		if err != nil || t == enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED {
			return nil, fmt.Errorf("--search-attribute %q: unknown type %q: use one of %s", v, typeName, strings.Join(searchAttributeTypes(), ", "))
		}
		if other, twice := attributes[name]; twice && other != t {
			return nil, fmt.Errorf("--search-attribute %s has two types, %s and %s: use only one", name, other, t)
		}
		attributes[name] = t
	}
	return attributes, nil
}

func searchAttributeTypes() []string {
	var names []string
	for name, value := range enumspb.IndexedValueType_shorthandValue {
		if value != int32(enumspb.INDEXED_VALUE_TYPE_UNSPECIFIED) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func versionText() string {
	return fmt.Sprintf("temporal-devserver: Temporal server %s, Web UI %s, %s", headers.ServerVersion, uiversion.UIVersion, runtime.Version())
}

func helpText() string {
	var raw rawFlags
	return `temporal-devserver runs a Temporal server and the Temporal Web UI in one process, for development and tests.

Usage:
  temporal-devserver [flags]

Examples:
  temporal-devserver                                    state in memory, ports 7233 and 8233
  temporal-devserver --db-filename temporal.db          state in a SQLite file
  temporal-devserver --port 0 --ready-file ready.json   free ports, listed in the file
  temporal-devserver --postgres 'postgres://me@127.0.0.1:5432/postgres?sslmode=disable'
  ` + postgresEnv + `='postgres://me:secret@127.0.0.1:5432/postgres' temporal-devserver

Flags:
` + newFlagSet(&raw).FlagUsagesWrapped(110) + `
Exit codes: 0 stopped on request, 4 a port is in use, 1 any other error.
State in a SQLite file or in Postgres survives kill -9. Only one server at a time can use a database.
This server has no authentication and no TLS: keep it on a loopback address.
`
}
