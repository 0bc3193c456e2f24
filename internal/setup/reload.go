package setup

import (
	"maps"
	"slices"
	"sync"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Reloader reads a configuration again, for the settings that apply without a restart. It is safe for
// concurrent use.
type Reloader struct {
	from     config.Sources
	scripted string

	mu      sync.Mutex
	trusted map[string]bool // by file: whether it was trusted at first
}

// NewReloader is Load that also returns what reads the same sources again.
func NewReloader(from config.Sources, scriptedURL string) (*Reloader, *config.Config, error) {
	r := &Reloader{from: from, scripted: scriptedURL}
	seen, cfg, err := r.load()
	r.trusted = seen
	return r, cfg, err
}

// load reads the sources, and returns which of the files that need trust have it.
func (r *Reloader) load() (map[string]bool, *config.Config, error) {
	from, seen := r.from, map[string]bool{}
	if r.from.Trusts != nil {
		from.Trusts = func(file string, content []byte) bool {
			seen[file] = r.from.Trusts(file, content)
			return seen[file]
		}
	}
	cfg, err := Load(from, r.scripted)
	return seen, cfg, err
}

// Load reads the sources again. A file that was trusted at first must still exist and be trusted:
// otherwise all who can write to it could drop its settings.
func (r *Reloader) Load() (*config.Config, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen, cfg, err := r.load()
	if err != nil {
		return nil, err
	}
	for _, file := range slices.Sorted(maps.Keys(r.trusted)) {
		if r.trusted[file] && !seen[file] {
			return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
				"the configuration file %s was changed or removed, and is not trusted as it is now; review it and run rgpt trust, or restart the server", file)
		}
	}
	return cfg, nil
}
