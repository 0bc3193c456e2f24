package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/doctor"
)

func TestDoctorAsksOnlyRegistriesThatTheGateAsks(t *testing.T) {
	t.Parallel()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/left-pad" {
			fmt.Fprint(w, `{"time":{"1.0.0":"2020-01-01T00:00:00Z"}}`)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(registry.Close)
	cfg := config.Default()
	cfg.Gate.Dependencies.Registries = config.GateRegistries{NPM: registry.URL, PyPI: registry.URL + "/other"}
	require.Empty(t, registriesCheck(cfg), "lookups are off")
	cfg.Gate.Dependencies.Lookup = true
	checks := registriesCheck(cfg)
	require.Len(t, checks, 1)
	results := checks[0].Run(t.Context())
	require.Len(t, results, 2)
	require.Equal(t, doctor.Warn, results[0].Status)
	require.Contains(t, results[0].Message, "the registry of PyPI does not answer as expected (it does not have the package six)")
	require.Equal(t, doctor.OK, results[1].Status)
	cfg.Gate.Policy = config.GateOff
	require.Empty(t, registriesCheck(cfg))
}
