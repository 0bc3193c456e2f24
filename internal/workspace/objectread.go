package workspace

import (
	"bytes"
	"compress/zlib"
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

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// errNeedsGit says that what was asked for is not among the plain cases that
// are done in this process: the git program has to do it.
var errNeedsGit = errors.New("the git program has to do this")

const (
	// maxObjectBytes bounds the objects that are read into memory here; git
	// streams larger ones.
	maxObjectBytes = 1 << 20
	// maxPackStores bounds the mirrors whose pack indexes are kept in memory,
	// and packCacheBytes what is kept of each one's objects.
	maxPackStores  = 8
	packCacheBytes = 4 << 20
)

// object returns the content of an object of the mirror. What cannot be read
// here, for whatever reason, is errNeedsGit.
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
	// What a crash or a bad disk left behind is never taken for content.
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
		return nil, errors.New("it is of another kind, larger than is read here, or damaged")
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

// packs read what git fetched into mirrors. Their packs are never repacked, so
// that what was found once stays where it is.
type packs struct {
	mu     sync.Mutex
	stores []packStore // the one that was used last comes last
}

type packStore struct {
	gitDir string
	store  *filesystem.ObjectStorage
}

// read returns an object. One that is not there may be in a pack that came
// after the store was opened, so it is looked for once more in a new one.
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
		return nil, fmt.Errorf("%w: it has %d bytes", errNeedsGit, size)
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
		return "", fmt.Errorf("%w: the commit %s names no tree", errNeedsGit, commit)
	}
	return tree, nil
}
