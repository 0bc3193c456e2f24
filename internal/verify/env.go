package verify

import (
	"net"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// Env is what a check runs with.
type Env struct {
	// Runner isolates the commands.
	Runner sandbox.Runner
	// Settings must be those the check was planned with.
	Settings checks.Settings
	// Limits bound each command. Limits.Timeout bounds the whole check with
	// its re-runs.
	Limits sandbox.Limits
	// Vars are added to the environment of every command: where the
	// toolchains are, PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH, RGPT_CHROMIUM.
	Vars map[string]string
	// Mounts are what commands see of the host, such as caches.
	Mounts []sandbox.Mount
	// GoCache holds what the go tool compiled. The zero value is a cache that
	// ends with each command.
	GoCache sandbox.GoCache
	// Outfit gives each command what the environment of the checkout brings: its
	// home, installed packages, PATH. May be nil.
	Outfit func(c *sandbox.Command)
	// NodeModules is a directory with installed Node packages, outside the
	// checkout, which commands may read at NodeModulesInside. Empty: those of
	// the checkout, if any.
	NodeModules string
	// Proxy gives commands that may reach hosts their way out; see
	// sandbox.Command.Proxy. Nil means that there is none, whatever the settings
	// say.
	Proxy func(hosts []string) func(net.Listener) []string
	// CACertificates are trusted by commands with a way out.
	CACertificates []byte
	// OnOutput receives what commands print, as it comes, fit for people.
	OnOutput func(stream sandbox.Stream, chunk []byte)
}

func (e Env) outfit(c *sandbox.Command) {
	if e.Outfit != nil {
		e.Outfit(c)
	}
}

// NodeModulesInside is where commands find Env.NodeModules.
const NodeModulesInside = "/opt/node_modules"
