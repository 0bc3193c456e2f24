package scripted

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Scenario is a parsed and checked scenario. It never changes and may be used by several servers.
type Scenario struct {
	models map[string]lacks // by name; empty: any model exists and lacks nothing
	rules  []rule
	digest string
}

// Rules returns the number of rules in the scenario.
func (s *Scenario) Rules() int { return len(s.rules) }

// Digest identifies the scenario's content: SHA-256, in hex.
func (s *Scenario) Digest() string { return s.digest }

// rule is one rule of a scenario.
type rule struct {
	when    when
	times   int64 // 0 means always
	latency time.Duration
	pace    time.Duration // between the pieces of a streamed response
	reply   reply
	usage   *usage
	fault   *faultSpec
}

// when has the conditions of a rule. A nil field matches every request.
type when struct {
	agent, phase, step, contains, model *string
	attempt, turn, pictures             *int
}

// reply is the model's response.
type reply struct {
	text      string
	reasoning string
	calls     []toolCall
}

type toolCall struct {
	name      string
	arguments string // JSON, unless the scenario makes it invalid
}

// usage counts tokens. The prompt includes what was read from the cache and written to it.
type usage struct {
	prompt, completion int64
	cached, written    int64
}

// faultSpec is the fault to inject instead of a normal response; exactly one kind is set.
type faultSpec struct {
	status     int
	code       string // of the error; "" means the usual one for the status
	retryAfter time.Duration
	timeout    bool
	truncate   bool
	malformed  bool
	disconnect bool
}

// maxScenario limits a scenario file. Replies of many megabytes are legitimate.
const maxScenario = 256 << 20

// Load reads a scenario file. For an invalid file, it returns a CONFIG_ERROR that lists the
// mistakes with file, line and key.
func Load(path string) (*Scenario, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot read the scenario file %s", path)
	}
	if !info.Mode().IsRegular() || info.Size() > maxScenario {
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"the scenario %s must be a regular file of at most %d MiB", path, maxScenario>>20)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot read the scenario file %s", path)
	}
	return Parse(path, data)
}

// Parse parses a scenario from memory. Messages use name as the file name.
func Parse(name string, data []byte) (*Scenario, error) {
	models, rules, mistakes := parse(data)
	if len(mistakes) > 0 {
		return nil, refuse(name, mistakes)
	}
	return &Scenario{models: models, rules: rules, digest: fmt.Sprintf("%x", sha256.Sum256(data))}, nil
}

// refuse combines all mistakes into one error, with the first ones in full.
func refuse(name string, mistakes []mistake) error {
	const most = 10
	lines := make([]string, 0, most+1)
	for i, m := range mistakes {
		if i == most {
			lines = append(lines, "and more")
			break
		}
		lines = append(lines, m.in(name))
	}
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "the scenario is invalid: %s", strings.Join(lines, "; "))
}
