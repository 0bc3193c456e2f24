package workspace

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Modes of tree entries.
const (
	modeFile       = "100644"
	modeExecutable = "100755"
	modeLink       = "120000"
	modeDirectory  = "40000"
	modeGitlink    = "160000"
)

// treeEntry is one line of a tree.
type treeEntry struct{ mode, name, id string }

func (e treeEntry) isTree() bool { return e.mode == modeDirectory }

// isFile reports whether the entry has content of its own.
func (e treeEntry) isFile() bool {
	return e.mode == modeFile || e.mode == modeExecutable || e.mode == modeLink
}

// sortKey is the key by which git sorts a tree: directories end in a slash.
func (e treeEntry) sortKey() string {
	if e.isTree() {
		return e.name + "/"
	}
	return e.name
}

// entries returns the entries of a tree; "" means a missing tree.
func (r *mirror) entries(tree string) ([]treeEntry, error) {
	if tree == "" {
		return nil, nil
	}
	content, err := r.object(kindTree, tree)
	if err != nil {
		return nil, err
	}
	var list []treeEntry
	for len(content) > 0 {
		head, rest, ok := bytes.Cut(content, []byte{0})
		mode, name, spaced := strings.Cut(string(head), " ")
		if !ok || !spaced || len(rest) < sha1Length/2 {
			return nil, fmt.Errorf("%w: the tree %s has an unexpected format", errNeedsGit, tree)
		}
		list = append(list, treeEntry{mode: mode, name: name, id: hex.EncodeToString(rest[:sha1Length/2])})
		content = rest[sha1Length/2:]
	}
	return list, nil
}

// writeEntries stores a tree and returns its id; an empty tree is not stored and returns "".
func (r *mirror) writeEntries(list []treeEntry) (string, error) {
	if len(list) == 0 {
		return "", nil
	}
	return r.writeTreeObject(list)
}

func (r *mirror) writeTreeObject(list []treeEntry) (string, error) {
	slices.SortFunc(list, func(a, b treeEntry) int { return strings.Compare(a.sortKey(), b.sortKey()) })
	var content bytes.Buffer
	for _, e := range list {
		id, err := hex.DecodeString(e.id)
		if err != nil {
			return "", fmt.Errorf("read the id of %s: %w", e.name, err)
		}
		fmt.Fprintf(&content, "%s %s\x00%s", e.mode, e.name, id)
	}
	return r.writeObject(kindTree, sha1Length, content.Bytes())
}

// withFile returns the tree in which the file at the path is leaf, or is removed if leaf is nil. A
// path through anything other than a directory, and a path to a directory, are left to git.
func (r *mirror) withFile(tree string, path []string, leaf *treeEntry) (string, error) {
	list, err := r.entries(tree)
	if err != nil {
		return "", err
	}
	at := slices.IndexFunc(list, func(e treeEntry) bool { return e.name == path[0] })
	var there treeEntry
	if at >= 0 {
		there = list[at]
		list = slices.Delete(list, at, at+1)
	}
	if len(path) == 1 {
		if at >= 0 && !there.isFile() {
			return "", errNeedsGit
		}
		if leaf != nil {
			list = append(list, treeEntry{mode: leaf.mode, name: path[0], id: leaf.id})
		}
		return r.writeEntries(list)
	}
	if at >= 0 && !there.isTree() {
		return "", errNeedsGit
	}
	below, err := r.withFile(there.id, path[1:], leaf)
	if err != nil {
		return "", err
	}
	if below != "" {
		list = append(list, treeEntry{mode: modeDirectory, name: path[0], id: below})
	}
	return r.writeEntries(list)
}

// find returns the entry at a path.
func (r *mirror) find(tree string, path []string) (treeEntry, bool, error) {
	list, err := r.entries(tree)
	if err != nil {
		return treeEntry{}, false, err
	}
	at := slices.IndexFunc(list, func(e treeEntry) bool { return e.name == path[0] })
	switch {
	case at < 0:
		return treeEntry{}, false, nil
	case len(path) == 1:
		return list[at], true, nil
	case !list[at].isTree():
		return treeEntry{}, false, errNeedsGit
	}
	return r.find(list[at].id, path[1:])
}

// pair consists of the entries of two trees with the same name; an empty mode means no entry.
type pair struct{ old, new treeEntry }

func (p pair) name() string {
	if p.old.mode == "" {
		return p.new.name
	}
	return p.old.name
}

// pairUp pairs the entries of two trees by name, in order of names, and omits identical ones.
func (r *mirror) pairUp(oldTree, newTree string) ([]pair, error) {
	before, err := r.entries(oldTree)
	if err != nil {
		return nil, err
	}
	after, err := r.entries(newTree)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]pair, len(before))
	for _, e := range before {
		byName[e.name] = pair{old: e}
	}
	for _, e := range after {
		byName[e.name] = pair{old: byName[e.name].old, new: e}
	}
	var changed []pair
	for _, p := range byName {
		if p.old != p.new {
			changed = append(changed, p)
		}
	}
	slices.SortFunc(changed, func(a, b pair) int { return strings.Compare(a.name(), b.name()) })
	return changed, nil
}

// fileChange is a file that differs between two trees.
type fileChange struct {
	path     string
	old, new treeEntry // an empty mode means a missing file
}

// changedFiles calls visit for each file that differs between two trees, in an order that depends
// only on the trees. Changed submodules and entries whose kind changes are left to git.
func (r *mirror) changedFiles(oldTree, newTree, dir string, visit func(fileChange) error) error {
	changed, err := r.pairUp(oldTree, newTree)
	if err != nil {
		return err
	}
	for _, p := range changed {
		switch {
		case (p.old.mode == "" || p.old.isTree()) && (p.new.mode == "" || p.new.isTree()):
			err = r.changedFiles(p.old.id, p.new.id, dir+p.name()+"/", visit)
		case (p.old.mode == "" || p.old.isFile()) && (p.new.mode == "" || p.new.isFile()):
			err = visit(fileChange{path: dir + p.name(), old: p.old, new: p.new})
		default:
			err = errNeedsGit
		}
		if err != nil {
			return err
		}
	}
	return nil
}
