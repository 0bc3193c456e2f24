// Package tester carries out a tester's work on one host: it finds and creates the environment that
// a workspace needs, runs checks on clean checkouts in the sandbox, and compares a change with the
// commit that it started from.
//
// It knows neither runs and workflows nor the database. Activities store its results for a run;
// rgpt verify prints them.
package tester

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/buildcache"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/proxy"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker"
	"github.com/rocketgpt/orchestrator/internal/setup"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Host contains what the work needs. All of it is safe for concurrent use.
type Host struct {
	Config     *config.Config
	Workspaces *workspace.Manager
	Sandbox    sandbox.Runner
	Proxy      *proxy.Proxy // the sandboxes' network access; nil: none
	DataDir    string
	Log        *slog.Logger
	// Tools returns the tools that commands can use; nil: there are none.
	Tools environment.ToolsOf
	// BuildImage builds the image that commands name; nil: commands do not run in containers.
	BuildImage func(context.Context, docker.Source) (docker.Built, error)
	// Facts caches facts from git about base commits.
	Facts *sync.Map
}

// Limited returns the settings of every sandboxed command, including setup commands.
func (h *Host) Limited() sandbox.Command {
	c := sandbox.Command{Env: map[string]string{}, Limits: setup.Limits(h.Config)}
	for _, path := range h.Config.Execution.Sandbox.ReadOnly {
		c.Mounts = append(c.Mounts, sandbox.Mount{Host: path, Inside: path})
	}
	return c
}

// Command returns the settings of every sandboxed command of agents and checks.
func (h *Host) Command(cache *buildcache.Cache) sandbox.Command {
	c := h.Limited()
	cache.Give(&c)
	return c
}

// OpenCache opens the build cache of a use; see buildcache.Store.
func (h *Host) OpenCache(repo string, run int64, use string) (*buildcache.Cache, error) {
	cache, err := setup.BuildCaches(h.DataDir).Open(repo, run, use)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, fault.Of(err).Code, "cannot create the build cache in %s", filepath.Join(h.DataDir, "cache"))
	}
	return cache, nil
}

// DigestOf returns a digest that differs for different lists of parts.
func DigestOf(parts ...string) string {
	hash := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(hash, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Clipped cuts a text at its end, with a note.
func Clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf(" … (%d more bytes)", len(s)-most)
}
