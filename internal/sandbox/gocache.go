package sandbox

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// GoCache is the build cache of the go tool in two layers: compiled packages go into the command's
// own layer; the shared layer is only read.
//
// The go tool queries a program (GOCACHEPROG, Go 1.24 and newer) for cache entries; the sandbox
// helper is that program. It runs inside the sandbox with the rights of the command, so only the
// read-only mount protects Base. An older go tool works without Base.
type GoCache struct {
	// Base is a directory that was an earlier GoCache.Dir, mounted read-only. "" or a
	// directory that does not exist means no base.
	Base string
	// Dir receives the packages that the command compiles. It must exist.
	Dir string
}

// goCacheArg as first argument makes the program serve a GoCache to the go tool, over
// its protocol on standard input and output.
const goCacheArg = "rgpt-go-cache"

// withGoCache makes the layers visible and names the program that serves them.
func (c Command) withGoCache(program string) Command {
	base := c.GoCache.Base
	if base != "" {
		if info, err := os.Lstat(base); err == nil && info.IsDir() {
			c.Mounts = append(c.Mounts, Mount{Host: base, Inside: goCacheBaseInside})
			base = goCacheBaseInside
		} else {
			base = ""
		}
	}
	c.Mounts = append(c.Mounts, Mount{Host: c.GoCache.Dir, Inside: goCacheInside, Writable: true})
	c.Env["GOCACHE"] = goCacheInside
	c.Env["GOCACHEPROG"] = strings.Join([]string{word(program), goCacheArg, word(base), word(goCacheInside)}, " ")
	return c
}

// Paths of the command's own layer and of the shared layer in the sandbox.
const (
	goCacheInside     = "/var/cache/go"
	goCacheBaseInside = "/var/cache/go-base"
)

// word quotes one word for the go tool. A path that contains both kinds of quotes cannot be quoted.
func word(s string) string {
	if strings.ContainsRune(s, '\'') {
		return `"` + s + `"`
	}
	return "'" + s + "'"
}

// goCacheRequest and goCacheAnswer are the messages of cmd/go/internal/cacheprog.
type goCacheRequest struct {
	ID       int64
	Command  string
	ActionID []byte
	OutputID []byte
	BodySize int64
}

type goCacheAnswer struct {
	ID            int64
	Err           string     `json:",omitempty"`
	KnownCommands []string   `json:",omitempty"`
	Miss          bool       `json:",omitempty"`
	OutputID      []byte     `json:",omitempty"`
	Size          int64      `json:",omitempty"`
	Time          *time.Time `json:",omitempty"`
	DiskPath      string     `json:",omitempty"`
}

// serveGoCache answers the go tool until it closes the connection or exits.
func serveGoCache(c GoCache, in io.Reader, out io.Writer) error {
	requests := json.NewDecoder(bufio.NewReaderSize(in, 64<<10))
	answers := json.NewEncoder(out)
	if err := answers.Encode(goCacheAnswer{KnownCommands: []string{"get", "put", "close"}}); err != nil {
		return err
	}
	for {
		var r goCacheRequest
		if err := requests.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var body []byte
		if r.Command == "put" && r.BodySize > 0 {
			if err := requests.Decode(&body); err != nil {
				return err
			}
		}
		answer := goCacheAnswer{ID: r.ID}
		if err := c.answer(r, body, &answer); err != nil {
			answer.Err = err.Error()
		}
		if err := answers.Encode(answer); err != nil || r.Command == "close" {
			return err
		}
	}
}

func (c GoCache) answer(r goCacheRequest, body []byte, to *goCacheAnswer) error {
	switch r.Command {
	case "get":
		if !c.get(r.ActionID, to) {
			to.Miss = true
		}
		return nil
	case "put":
		if int64(len(body)) != r.BodySize {
			return fmt.Errorf("got %d bytes, expected %d", len(body), r.BodySize)
		}
		return c.put(r, body, to)
	case "close":
		return nil
	}
	return fmt.Errorf("unknown command %q", r.Command)
}

// get looks in the command's own layer first, which has the newest entries.
func (c GoCache) get(action []byte, to *goCacheAnswer) bool {
	for _, dir := range []string{c.Dir, c.Base} {
		if dir == "" {
			continue
		}
		data, err := os.ReadFile(goCacheFile(dir, action, "-entry"))
		if err != nil {
			continue
		}
		var output string
		var size, nanos int64
		if _, err := fmt.Sscanf(string(data), "%s %d %d", &output, &size, &nanos); err != nil {
			continue
		}
		id, err := hex.DecodeString(output)
		if err != nil {
			continue
		}
		path := goCacheFile(dir, id, "-output")
		if info, err := os.Stat(path); err != nil || info.Size() != size {
			continue
		}
		at := time.Unix(0, nanos)
		to.OutputID, to.Size, to.Time, to.DiskPath = id, size, &at, path
		return true
	}
	return false
}

// put writes the output and then the entry that points to it, each atomically: a reader sees all or
// nothing, even if the writer is still writing or was killed.
func (c GoCache) put(r goCacheRequest, body []byte, to *goCacheAnswer) error {
	if len(r.ActionID) == 0 || len(r.OutputID) == 0 {
		return errors.New("an ID is missing")
	}
	path := goCacheFile(c.Dir, r.OutputID, "-output")
	if info, err := os.Stat(path); err != nil || info.Size() != r.BodySize {
		if err := writeAtOnce(path, body); err != nil {
			return err
		}
	}
	entry := fmt.Sprintf("%x %d %d\n", r.OutputID, r.BodySize, time.Now().UnixNano())
	if err := writeAtOnce(goCacheFile(c.Dir, r.ActionID, "-entry"), []byte(entry)); err != nil {
		return err
	}
	to.DiskPath = path
	return nil
}

// goCacheFile spreads files over 256 directories, as the go tool does.
func goCacheFile(dir string, id []byte, kind string) string {
	name := hex.EncodeToString(id)
	return filepath.Join(dir, name[:min(2, len(name))], name+kind)
}

func writeAtOnce(path string, data []byte) error {
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, ".new-*")
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o777); err == nil {
			file, err = os.CreateTemp(dir, ".new-*")
		}
	}
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
