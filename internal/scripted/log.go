package scripted

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// Statuses in the request log for requests without an HTTP status.
const (
	// StatusDropped: the scenario broke the connection, or the server was closed.
	StatusDropped = 0
	// StatusClientGone: the client disconnected before it received the whole response.
	StatusClientGone = 499
)

// LogEntry is one line of the request log. Rule is the position of the rule that was used, from 1;
// 0 means none.
type LogEntry struct {
	Time             time.Time `json:"time"`
	Run              int64     `json:"run"`
	Agent            string    `json:"agent"`
	Phase            string    `json:"phase"`
	Step             string    `json:"step"`
	Attempt          int       `json:"attempt"`
	Turn             int       `json:"turn"`
	Model            string    `json:"model"`
	Rule             int       `json:"rule"`
	Status           int       `json:"status"`
	PromptTokens     int64     `json:"prompt_tokens"`
	CachedTokens     int64     `json:"cached_tokens,omitempty"`
	CacheWriteTokens int64     `json:"cache_write_tokens,omitempty"`
	CompletionTokens int64     `json:"completion_tokens"`
	// Schema is the name of the JSON schema required for the response, or StrictTools; empty if
	// neither.
	Schema string `json:"schema,omitempty"`
}

// StrictTools is the schema of a request that restricts the model to the schemas of its
// tools, each of them strict.
const StrictTools = contract.StrictToolSchemas

// ReadLog reads a request log. An incomplete last line is omitted.
func ReadLog(path string) ([]LogEntry, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, unusable(err, path)
	}
	var all []LogEntry
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var e LogEntry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, unusable(err, path)
		}
		all = append(all, e)
	}
	return all, nil
}

// requestLog appends entries to a file, each in one write.
type requestLog struct {
	mu   sync.Mutex
	file *os.File // nil: no log
}

func openLog(path string) (*requestLog, error) {
	if path == "" {
		return &requestLog{}, nil
	}
	file, err := openLines(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return nil, unusable(err, path)
	}
	return &requestLog{file: file}, nil
}

func (l *requestLog) write(e LogEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	return writeLine(l.file, e)
}

func (l *requestLog) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// writeLine writes a value as one JSON line in one write.
func writeLine(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// openLines opens a file of lines. If a killed server left an incomplete last line, it first
// terminates that line.
func openLines(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	torn, err := endsTorn(path)
	if err == nil && torn {
		_, err = file.WriteString("\n")
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// endsTorn reports whether a file's last line is not terminated.
func endsTorn(path string) (bool, error) {
	file, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 || !info.Mode().IsRegular() {
		return false, err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, info.Size()-1); err != nil {
		return false, err
	}
	return last[0] != '\n', nil
}
