package main

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/dynamicconfig"
)

func noEnv(string) string { return "" }

func TestFlagsDefaultToTheOfficialServersPorts(t *testing.T) {
	t.Parallel()
	o, err := parseFlags(nil, noEnv)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", o.IP)
	require.Equal(t, 7233, o.Port)
	require.Equal(t, 8233, o.UIPort)
	require.Equal(t, []string{"default"}, o.Namespaces)

	o, err = parseFlags([]string{"--port=9000", "--namespace", "a", "--namespace", "default", "-n", "a"}, noEnv)
	require.NoError(t, err)
	require.Equal(t, 10000, o.UIPort)
	require.Equal(t, []string{"default", "a"}, o.Namespaces)

	o, err = parseFlags([]string{"--port", "0"}, noEnv)
	require.NoError(t, err)
	require.Zero(t, o.UIPort, "a free port, as the frontend's")
}

func TestPostgresURLComesFromTheEnvironmentUnlessAFlagSaysWhere(t *testing.T) {
	t.Parallel()
	env := func(name string) string {
		if name == postgresEnv {
			return "postgres://from-env"
		}
		return ""
	}
	o, err := parseFlags(nil, env)
	require.NoError(t, err)
	require.Equal(t, "postgres://from-env", o.Postgres)
	o, err = parseFlags([]string{"--postgres", "postgres://from-flag"}, env)
	require.NoError(t, err)
	require.Equal(t, "postgres://from-flag", o.Postgres)
	o, err = parseFlags([]string{"--db-filename", "x.db"}, env)
	require.NoError(t, err)
	require.Empty(t, o.Postgres)
}

func TestDynamicConfigOfTheFlagOverridesThatOfTheEnvironment(t *testing.T) {
	t.Parallel()
	env := func(name string) string {
		if name == dynamicConfigEnv {
			return "frontend.rps=1\nhistory.maximumSignalsPerExecution=7\n"
		}
		return ""
	}
	o, err := parseFlags([]string{"--dynamic-config-value", "frontend.rps=2"}, env)
	require.NoError(t, err)
	config, err := dynamicConfig(o.DynamicConfig)
	require.NoError(t, err)
	collection := dynamicconfig.NewCollection(config, newLogger(t.Output(), logNever, "text"))
	require.Equal(t, 2, dynamicconfig.FrontendRPS.Get(collection)())
	require.Equal(t, 7, dynamicconfig.MaximumSignalsPerExecution.Get(collection)("ns"))
}

func TestWrongFlagsAreRefusedByName(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"unknown flag":           {[]string{"--prot", "1"}, "unknown flag: --prot"},
		"argument":               {[]string{"start"}, `unexpected argument "start"`},
		"address":                {[]string{"--ip", "localhost"}, "--ip"},
		"port":                   {[]string{"--port", "70000"}, "--port"},
		"no room for the UI":     {[]string{"--port", "65000"}, "--ui-port"},
		"same port twice":        {[]string{"--port", "7000", "--http-port", "7000"}, "--port and --http-port are both 7000"},
		"two stores":             {[]string{"--postgres", "x", "--db-filename", "y"}, "cannot be used together"},
		"one database for both":  {[]string{"--postgres", "x", "--postgres-db", "a", "--postgres-visibility-db", "a"}, "must be different"},
		"reserved namespace":     {[]string{"--namespace", "temporal-system"}, "--namespace"},
		"attribute without type": {[]string{"--search-attribute", "A"}, "Name=Type"},
		"attribute type":         {[]string{"--search-attribute", "A=String"}, "Bool, Datetime, Double, Int, Keyword, KeywordList, Text"},
		"reserved attribute":     {[]string{"--search-attribute", "WorkflowId=Keyword"}, "WorkflowId"},
		"attribute of two types": {[]string{"--search-attribute", "A=Int", "--search-attribute", "A=Text"}, "has two types"},
		"log level":              {[]string{"--log-level", "loud"}, "--log-level"},
		"log format":             {[]string{"--log-format", "xml"}, "--log-format"},
		"dynamic config form":    {[]string{"--dynamic-config-value", "a"}, "KEY=JSON"},
		"dynamic config value":   {[]string{"--dynamic-config-value", "frontend.rps={"}, "not a JSON value"},
		"dynamic config type":    {[]string{"--dynamic-config-value", `frontend.rps="fast"`}, "type of the value"},
		"dynamic config key":     {[]string{"--dynamic-config-value", "frontend.rsp=1"}, "spelling of the key"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := parseFlags(test.args, noEnv)
			require.ErrorContains(t, err, test.want)
		})
	}
	_, err := parseFlags([]string{"--help"}, noEnv)
	require.ErrorIs(t, err, pflag.ErrHelp)
}

func TestDynamicConfigKeepsTypes(t *testing.T) {
	t.Parallel()
	c, err := dynamicConfig([]string{"frontend.rps=5", "matching.longPollExpirationInterval=\"3s\"", "system.operatorRPSRatio=0.5", "worker.historyScannerEnabled=true"})
	require.NoError(t, err)
	collection := dynamicconfig.NewCollection(c, newLogger(t.Output(), logNever, "text"))
	require.Equal(t, 5, dynamicconfig.FrontendRPS.Get(collection)())
	require.Equal(t, 3*time.Second, dynamicconfig.MatchingLongPollExpirationInterval.Get(collection)("ns", "q", enumspb.TASK_QUEUE_TYPE_WORKFLOW))
	require.InDelta(t, 0.5, dynamicconfig.OperatorRPSRatio.Get(collection)(), 0)
	require.True(t, dynamicconfig.HistoryScannerEnabled.Get(collection)())
}

func TestBuiltInDynamicConfigHasTheTypesThatTheServerWants(t *testing.T) {
	t.Parallel()
	for _, v := range builtinDynamicConfigValues() {
		require.NoError(t, v.setting.Validate(v.value), v.setting.Key())
	}
}

func TestFreePortsAreDifferentAndCanBeListenedOn(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for range 50 {
		port, err := claimPort(t.Context(), "port", loopback, 0)
		require.NoError(t, err)
		require.False(t, seen[port], "given out twice")
		require.Less(t, port, ephemeralPort, "no connection of another process may take it")
		seen[port] = true
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		require.NoError(t, err)
		require.NoError(t, listener.Close())
	}
}

func TestSearchAttributeColumnsAreGivenInOrderAndRunOut(t *testing.T) {
	t.Parallel()
	aliases := map[string]string{}
	changed, err := addAliases(aliases, map[string]enumspb.IndexedValueType{"B": enumspb.INDEXED_VALUE_TYPE_TEXT, "A": enumspb.INDEXED_VALUE_TYPE_TEXT})
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, map[string]string{"Text01": "A", "Text02": "B"}, aliases)

	changed, err = addAliases(aliases, map[string]enumspb.IndexedValueType{"A": enumspb.INDEXED_VALUE_TYPE_TEXT})
	require.NoError(t, err)
	require.False(t, changed)

	_, err = addAliases(aliases, map[string]enumspb.IndexedValueType{"C": enumspb.INDEXED_VALUE_TYPE_TEXT, "D": enumspb.INDEXED_VALUE_TYPE_TEXT})
	require.ErrorContains(t, err, "database columns for type Text are in use")
}

func TestEventuallyReturnsTheLastErrorOfTheTry(t *testing.T) {
	t.Parallel()
	err := eventually(t.Context(), time.Millisecond, func(context.Context) error { return errors.New("not yet") })
	require.ErrorContains(t, err, "not yet")
}

func execSQLite(t testing.TB, file, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.Exec(statement)
	require.NoError(t, err)
}
