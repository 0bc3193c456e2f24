package route

import (
	"sync"

	"github.com/rocketgpt/orchestrator/contract"
)

// maxRecent is the number of runs whose settings a worker remembers.
const maxRecent = 1000

// runSettings are the settings of a run that decisions depend on. They never change.
type runSettings struct {
	routing         *contract.Routing
	models, members map[contract.Agent]contract.ModelChoice
}

// recent remembers the settings of runs. When it is full, it forgets all of them: reading them again
// is one statement for each run.
type recent struct {
	mu   sync.Mutex
	runs map[int64]runSettings
}

func (r *recent) get(run int64) (runSettings, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s, ok := r.runs[run]
	return s, ok
}

func (r *recent) put(run int64, s runSettings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.runs == nil || len(r.runs) >= maxRecent {
		r.runs = map[int64]runSettings{}
	}
	r.runs[run] = s
}
