package workspace

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The author where none is given.
const (
	defaultAuthor = "RocketGPT"
	defaultEmail  = "rgpt@localhost"
)

// commitObject is a commit to be made.
type commitObject struct {
	tree, parent string
	name, email  string
	date         time.Time
	message      string
}

// encode returns the commit as git stores it.
func (c commitObject) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "tree %s\n", c.tree)
	if c.parent != "" {
		fmt.Fprintf(&b, "parent %s\n", c.parent)
	}
	who := fmt.Sprintf("%s <%s> %d +0000", identity(c.name, defaultAuthor), identity(c.email, defaultEmail), max(c.date.Unix(), 0))
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s", who, who, c.message)
	return b.Bytes()
}

// identity makes a name or address fit for a commit's header.
func identity(text, fallback string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == '<' || r == '>' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
	text = strings.Trim(text, " .,:;\"'\\")
	if text == "" {
		return fallback
	}
	return text
}

// writeCommit stores a commit as a loose object. The format is simple and
// fixed, and a git process would cost ten times as much; a merge needs three.
func (r *mirror) writeCommit(c commitObject) (id string, err error) {
	content := c.encode()
	object := append([]byte(fmt.Sprintf("commit %d\x00", len(content))), content...)
	if len(c.tree) == 64 {
		sum := sha256.Sum256(object)
		id = hex.EncodeToString(sum[:])
	} else {
		sum := sha1.Sum(object)
		id = hex.EncodeToString(sum[:])
	}
	path := filepath.Join(r.objects(), id[:2], id[2:])
	if _, err := os.Stat(path); err == nil {
		return id, nil
	}
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	_, err = w.Write(object)
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = writeFile(path, packed.String())
	}
	if err != nil {
		return "", wrapf(err, "a commit could not be stored")
	}
	return id, nil
}
