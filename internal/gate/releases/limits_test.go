package releases_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
	"github.com/rocketgpt/orchestrator/internal/gate/releases"
)

func TestAPrivateNameIsNotSentInAnyOfItsForms(t *testing.T) {
	t.Parallel()
	r := serve(t, everywhere())
	for pattern, files := range map[string]map[string]string{
		"acme-*":     {"requirements.txt": "acme_internal==1.0\nACME.Internal==1.0\nacme__x==1\n", "Cargo.toml": "[dependencies]\nacme_x = '=1.0.0'\nAcme-y = '1'\n"},
		"acme_*":     {"requirements.txt": "acme-internal==1.0\n", "Cargo.toml": "[dependencies]\nacme-x = '=1.0.0'\n"},
		"com.acme.*": {"build.gradle": "implementation 'com.acme:lib:1'\nimplementation 'com.acme.a:lib:1'\n"},
		"com.acme":   {"build.gradle": "implementation 'com.acme:lib:1'\n"},
	} {
		cfg := settings(r.URL)
		cfg.Private = []string{pattern}
		for path, content := range files {
			found := lookup(t, client(t, cfg), path, content)
			require.NotEmpty(t, found)
			for _, d := range found {
				require.Equal(t, change.StatusPrivate, d.Status, "%s: %s", pattern, d.Name)
			}
		}
	}
	require.Zero(t, r.count())
	cfg := settings(r.URL)
	cfg.Private = []string{"com.acme.*"}
	require.Equal(t, change.StatusNotFound, lookup(t, client(t, cfg), "build.gradle", "implementation 'com.acmeevil:lib:1'\n")[0].Status)
}

func TestNamesOfManifestsWithAPrivateRegistryAreNotSent(t *testing.T) {
	t.Parallel()
	r := serve(t, everywhere())
	for path, content := range map[string]string{
		"Cargo.toml": "[dependencies]\nacme_x = {version='1', registry='corp'}\n", "Gemfile": "gem 'acme-x', '1.2.3', source: 'https://gems.corp.example'\n",
		"pyproject.toml": "[tool.poetry.dependencies]\nacme-x = {version='1', source='corp'}\n", "Pipfile": "[packages]\nacme-x = {version='==1', index='corp'}\n",
	} {
		found := lookup(t, client(t, settings(r.URL)), path, content)
		require.Len(t, found, 1, path)
		require.Equal(t, change.StatusUnknown, found[0].Status, path)
		require.Contains(t, found[0].Reason, "another registry", path)
	}
	require.Zero(t, r.count())
}

func TestThePatternsOfGoAreForModulesOnly(t *testing.T) {
	t.Parallel()
	r := serve(t, everywhere())
	c, err := releases.New(settings(r.URL), "*, corp.example/*")
	require.NoError(t, err)
	t.Cleanup(c.Close)
	require.Equal(t, change.StatusPrivate, lookup(t, c, "go.mod", manifests["go"].known)[0].Status)
	require.Zero(t, r.count())
	require.Equal(t, change.StatusFound, lookup(t, c, "package.json", manifests["npm"].known)[0].Status)
}

func TestAPatternThatMatchesEverythingIsTooWide(t *testing.T) {
	t.Parallel()
	require.Len(t, releases.TooWide("*", false), 8)
	require.Equal(t, []dependencies.Ecosystem{dependencies.Go}, releases.TooWide("*", true))
	require.Contains(t, releases.TooWide("*/*", false), dependencies.Go)
	for _, narrow := range []string{"@acme/*", "corp.example/*", "com.acme.*", "github.com/*", "acme-*", ""} {
		require.Empty(t, releases.TooWide(narrow, false), narrow)
	}
}

func TestOnlySoManyVersionsOfAPackageAreLookedUp(t *testing.T) {
	t.Parallel()
	r := serve(t, everywhere())
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "acme-x==1.%d\n", i)
	}
	statuses := map[change.Status]int{}
	for _, d := range lookup(t, client(t, settings(r.URL)), "requirements.txt", text.String()) {
		statuses[d.Status]++
		if d.Status == change.StatusUnknown {
			require.Contains(t, d.Reason, "more than 20 versions")
		}
	}
	require.Equal(t, map[change.Status]int{change.StatusFound: 1, change.StatusNoVersion: releases.MaxVersions - 1, change.StatusUnknown: 1000 - releases.MaxVersions}, statuses)
	require.Equal(t, 1, r.count())
}

func TestALookupEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	ch := gatetest.Between(gatetest.Tree{}, gatetest.Tree{"package.json": many(3)})
	c := client(t, settings(serve(t, everywhere()).URL))
	_, err := c.Cached(ended, ch)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, c.Lookup(ended, &ch), context.Canceled)
}
