package workspace

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// The default author.
const (
	defaultAuthor = "RocketGPT"
	defaultEmail  = "rgpt@localhost"
)

// commitObject is a commit to be created.
type commitObject struct {
	tree, parent string
	second       string // another parent; empty: none
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
	if c.second != "" {
		fmt.Fprintf(&b, "parent %s\n", c.second)
	}
	who := fmt.Sprintf("%s <%s> %d +0000", identity(c.name, defaultAuthor), identity(c.email, defaultEmail), max(c.date.Unix(), 0))
	fmt.Fprintf(&b, "author %s\ncommitter %s\n\n%s", who, who, c.message)
	return b.Bytes()
}

// identity makes a name or address valid in a commit's header.
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
		return "", wrapf(err, "could not store a commit")
	}
	return id, nil
}

// Kinds of git objects that this package reads and writes.
const (
	kindBlob   = "blob"
	kindTree   = "tree"
	kindCommit = "commit"
)

// sha1Length is the length of an object id in most repositories. Objects of other repositories are
// left to git.
const sha1Length = 40

// objectID returns the id of an object and its uncompressed form.
func objectID(kind string, idLength int, content []byte) (id string, object []byte) {
	object = fmt.Appendf(make([]byte, 0, len(content)+32), "%s %d\x00", kind, len(content))
	object = append(object, content...)
	if idLength != sha1Length {
		return fmt.Sprintf("%x", sha256.Sum256(object)), object
	}
	sum := sha1.Sum(object)
	return hex.EncodeToString(sum[:]), object
}

// deflaters are expensive to create and cheap to reuse.
var deflaters sync.Pool

// deflate compresses an object according to core.looseCompression of ownSettings.
func deflate(object []byte) (string, error) {
	w, ok := deflaters.Get().(*zlib.Writer)
	if !ok {
		var err error
		if w, err = zlib.NewWriterLevel(nil, zlib.BestSpeed); err != nil {
			return "", fmt.Errorf("create a compressor: %w", err)
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

// writeObject stores an object of this boot in git's loose format, which is simple and fixed. A git
// process would cost a hundred times more.
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

// errNeedsGit reports that a request is not one of the plain cases handled in this process and
// requires the git program.
var errNeedsGit = errors.New("the git program is required")

const (
	// maxObjectBytes limits the objects that are read into memory here; git streams larger ones.
	maxObjectBytes = 1 << 20
	// maxPackStores limits the mirrors whose pack indexes are kept in memory, and packCacheBytes
	// the size of each one's object cache.
	maxPackStores  = 8
	packCacheBytes = 4 << 20
)

// object returns the content of an object in the mirror, or errNeedsGit if it cannot be read here
// for any reason.
func (r *mirror) object(kind, id string) ([]byte, error) {
	if len(id) != sha1Length {
		return nil, errNeedsGit
	}
	content, err := readLoose(filepath.Join(r.objects(), id[:2], id[2:]), kind)
	if errors.Is(err, fs.ErrNotExist) {
		content, err = r.m.packs.read(r.gitDir(), kind, id)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s %s: %w", errNeedsGit, kind, id, err)
	}
	// Content damaged by a crash or a bad disk is never used.
	if sum, _ := objectID(kind, sha1Length, content); sum != id {
		return nil, fmt.Errorf("%w: %s %s is damaged", errNeedsGit, kind, id)
	}
	return content, nil
}

var inflaters sync.Pool

// readLoose reads a loose object.
func readLoose(path, kind string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	reader, err := inflate(file)
	if err != nil {
		return nil, err
	}
	defer inflaters.Put(reader)
	object, err := io.ReadAll(io.LimitReader(reader, maxObjectBytes))
	if err != nil {
		return nil, fmt.Errorf("inflate: %w", err)
	}
	header, content, _ := bytes.Cut(object, []byte{0})
	if string(header) != kind+" "+strconv.Itoa(len(content)) {
		return nil, errors.New("the object has the wrong type, is larger than the read limit, or is damaged")
	}
	return content, nil
}

func inflate(from io.Reader) (io.ReadCloser, error) {
	if reader, ok := inflaters.Get().(io.ReadCloser); ok {
		resetter, _ := reader.(zlib.Resetter)
		return reader, resetter.Reset(from, nil)
	}
	return zlib.NewReader(from)
}

// packs read objects that git fetched into mirrors. Mirrors are never repacked, so an object that
// was found once stays in its pack.
type packs struct {
	mu     sync.Mutex
	stores []packStore // most recently used last
}

type packStore struct {
	gitDir string
	store  *filesystem.ObjectStorage
}

// read returns an object. A missing one may be in a pack that appeared after the store was opened,
// so read searches again in a newly opened one.
func (p *packs) read(gitDir, kind, id string) ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	content, err := readPacked(p.open(gitDir), kind, id)
	if err != nil && !errors.Is(err, errNeedsGit) {
		p.forget(gitDir)
		content, err = readPacked(p.open(gitDir), kind, id)
	}
	return content, err
}

func (p *packs) open(gitDir string) *filesystem.ObjectStorage {
	at := slices.IndexFunc(p.stores, func(s packStore) bool { return s.gitDir == gitDir })
	if at < 0 {
		storage := filesystem.NewStorage(osfs.New(gitDir), cache.NewObjectLRU(packCacheBytes))
		p.stores = append(p.stores, packStore{gitDir: gitDir, store: &storage.ObjectStorage})
		p.stores = p.stores[max(0, len(p.stores)-maxPackStores):]
		return &storage.ObjectStorage
	}
	found := p.stores[at]
	p.stores = append(slices.Delete(p.stores, at, at+1), found)
	return found.store
}

func (p *packs) forget(gitDir string) {
	p.stores = slices.DeleteFunc(p.stores, func(s packStore) bool { return s.gitDir == gitDir })
}

func readPacked(store *filesystem.ObjectStorage, kind, id string) ([]byte, error) {
	hash := plumbing.NewHash(id)
	size, err := store.EncodedObjectSize(hash)
	if err != nil {
		return nil, err
	}
	if size > maxObjectBytes {
		return nil, fmt.Errorf("%w: the object is %d bytes long", errNeedsGit, size)
	}
	object, err := store.EncodedObject(plumbing.AnyObject, hash)
	if err != nil {
		return nil, err
	}
	if object.Type().String() != kind {
		return nil, fmt.Errorf("%w: it is a %s", errNeedsGit, object.Type())
	}
	reader, err := object.Reader()
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	return io.ReadAll(reader)
}

// commitTree returns the tree of a commit.
func (r *mirror) commitTree(commit string) (string, error) {
	content, err := r.object(kindCommit, commit)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(string(content), "\n")
	tree, ok := strings.CutPrefix(line, "tree ")
	if !ok || !commitID.MatchString(tree) {
		return "", fmt.Errorf("%w: the commit %s has no tree", errNeedsGit, commit)
	}
	return tree, nil
}
