package scripted

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// ledger records how often each limited rule was used, and for which idempotency keys. It is stored
// in a file next to the request log, so the uses survive when the server is killed; the request log
// itself has no keys.
//
// It contains only rules with times: a repeated request reaches the same unlimited rule again,
// because used-up rules before it stay used up.
type ledger struct {
	rules []rule
	used  []atomic.Int64

	mu   sync.Mutex
	keys map[string]int // key → rule that was used for it, except for faults
	file *os.File       // nil means memory only
}

// header is the first line of the state file, and entry each following line.
type header struct {
	Scenario string `json:"scenario"`
}

type entry struct {
	Rule int    `json:"rule"` // position from 1
	Key  string `json:"key,omitempty"`
}

// statePath returns where the state of a log is stored.
func statePath(logPath string) string { return logPath + ".state" }

func openLedger(s *Scenario, logPath string) (*ledger, error) {
	l := &ledger{rules: s.rules, used: make([]atomic.Int64, len(s.rules)), keys: map[string]int{}}
	if logPath == "" {
		return l, nil
	}
	path := statePath(logPath)
	goesOn := false
	if _, err := os.Stat(logPath); err == nil {
		if goesOn, err = l.restore(path, s.digest); err != nil {
			return nil, unusable(err, path)
		}
	}
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if !goesOn {
		flags |= os.O_TRUNC
	}
	file, err := openLines(path, flags)
	if err != nil {
		return nil, unusable(err, path)
	}
	l.file = file
	if !goesOn {
		if err := writeLine(file, header{Scenario: s.digest}); err != nil {
			_ = file.Close()
			return nil, unusable(err, path)
		}
	}
	return l, nil
}

// restore reads the state of an earlier server with the same scenario. It returns false
// if there is none.
func (l *ledger) restore(path, digest string) (bool, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	lines := bufio.NewScanner(bytes.NewReader(data))
	var h header
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &h) != nil || h.Scenario != digest {
		return false, lines.Err()
	}
	for lines.Scan() {
		var e entry
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Rule < 1 || e.Rule > len(l.rules) {
			continue // the last line of a server that was killed while writing
		}
		l.remember(e.Rule-1, e.Key)
	}
	return true, lines.Err()
}

// remember records one use of a limited rule.
func (l *ledger) remember(i int, key string) {
	l.used[i].Add(1)
	if key != "" && l.rules[i].fault == nil {
		l.keys[key] = i
	}
}

// answered returns the rule that was already used for a key.
func (l *ledger) answered(key string) (int, bool) {
	if key == "" {
		return 0, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	i, ok := l.keys[key]
	return i, ok
}

func (l *ledger) usedUp(i int) bool {
	return l.rules[i].times > 0 && l.used[i].Load() >= l.rules[i].times
}

// use counts one use of a rule. It returns false if another request used it up in the meantime.
func (l *ledger) use(i int, key string) (bool, error) {
	if l.rules[i].times == 0 {
		return true, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if first, ok := l.keys[key]; ok && first == i {
		return true, nil // two identical requests at the same time
	}
	if l.usedUp(i) {
		return false, nil
	}
	if l.file != nil {
		if err := writeLine(l.file, entry{Rule: i + 1, Key: key}); err != nil {
			return false, err
		}
	}
	l.remember(i, key)
	return true, nil
}

func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

func unusable(err error, path string) error {
	return fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot use the scripted model's file %s", path)
}
