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
	"sync"
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

// writeCommit stores a commit.
func (r *mirror) writeCommit(c commitObject) (id string, err error) {
	id, err = r.writeObject(kindCommit, len(c.tree), c.encode())
	if err != nil {
		return "", wrapf(err, "a commit could not be stored")
	}
	return id, nil
}

// The kinds of git's objects that are read and written here.
const (
	kindBlob   = "blob"
	kindTree   = "tree"
	kindCommit = "commit"
)

// sha1Length is the length of an object id of most repositories. Objects of the
// others are left to git.
const sha1Length = 40

// objectID returns the id of an object and its form before compression.
func objectID(kind string, idLength int, content []byte) (id string, object []byte) {
	object = fmt.Appendf(make([]byte, 0, len(content)+32), "%s %d\x00", kind, len(content))
	object = append(object, content...)
	if idLength != sha1Length {
		sum := sha256.Sum256(object)
		return hex.EncodeToString(sum[:]), object
	}
	sum := sha1.Sum(object)
	return hex.EncodeToString(sum[:]), object
}

// deflaters are costly to make and cheap to use again.
var deflaters sync.Pool

// deflate compresses an object as core.looseCompression of ownSettings says.
func deflate(object []byte) (string, error) {
	w, ok := deflaters.Get().(*zlib.Writer)
	if !ok {
		var err error
		if w, err = zlib.NewWriterLevel(nil, zlib.BestSpeed); err != nil {
			return "", fmt.Errorf("make a compressor: %w", err)
		}
	}
	defer deflaters.Put(w)
	var packed bytes.Buffer
	w.Reset(&packed)
	if _, err := w.Write(object); err != nil {
		return "", fmt.Errorf("compress: %w", err)
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("compress: %w", err)
	}
	return packed.String(), nil
}

// writeObject stores an object of this boot as a loose one. The format is simple
// and fixed, and a git process would cost a hundred times as much.
func (r *mirror) writeObject(kind string, idLength int, content []byte) (id string, err error) {
	id, object := objectID(kind, idLength, content)
	path := filepath.Join(r.objects(), id[:2], id[2:])
	if _, err := os.Stat(path); err == nil {
		return id, nil
	}
	packed, err := deflate(object)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err == nil {
		err = writeFile(path, packed)
	}
	if err != nil {
		return "", fmt.Errorf("store %s %s: %w", kind, id, err)
	}
	return id, nil
}
