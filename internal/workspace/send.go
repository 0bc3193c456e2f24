package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/storage/memory"
)

const (
	// maxSentBytes and maxSentCommits limit what is packed in memory here; git streams more.
	maxSentBytes   = 16 << 20
	maxSentCommits = 100
)

// create creates a reference in a repository on this host with half of the processes of a push: the
// new objects are read and sent here. Receive-pack checks and does everything that it does for a
// push. The error is errNeedsGit, and nothing has changed, if the objects are not plain or the
// repository may have the reference.
func (r *mirror) create(ctx context.Context, to source, u update) error {
	if to.remote() || u.base == "" || u.replaces != "" {
		return errNeedsGit
	}
	dir, common, err := r.m.gitDirsOf(ctx, to)
	if err != nil || !lacksRef(common, u.ref) {
		return errNeedsGit
	}
	pack, err := r.packSince(ctx, u.base, u.commit)
	if err != nil {
		return err
	}
	settings := slices.Clone(serverSettings)
	if !hidesRefs(dir, common) {
		settings = append(settings, hiddenRefs(u)...)
	}
	command := strings.Repeat("0", sha1Length) + " " + u.commit + " " + u.ref + "\x00report-status quiet object-format=sha1"
	out, err := r.m.git(ctx, call{
		// It takes one request, as from a web server, and does not list the references first.
		args: []string{"receive-pack", "--stateless-rpc", strings.TrimPrefix(to.address, "file://")},
		dir:  r.root, config: settings, user: true,
		stdin: strings.NewReader(packetLine(command) + flushPacket + pack),
	})
	if err != nil {
		return err
	}
	return created(out, u.ref)
}

// lacksRef reports whether a repository has no reference with this name. It knows only the format
// that most repositories have. Receive-pack decides whether a reference is new, but only after it
// has taken the objects, which then remain. A push looks at the reference first.
func lacksRef(common, ref string) bool {
	// In another format, refs/heads is not a directory, which is another error.
	if _, err := os.Lstat(filepath.Join(common, ref)); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	packed, err := os.ReadFile(filepath.Join(common, "packed-refs"))
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	return err == nil && !bytes.Contains(packed, []byte(" "+ref+"\n"))
}

// flushPacket ends a list of lines in git's protocol.
const flushPacket = "0000"

// packetLine formats a line of git's protocol.
func packetLine(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

// created returns an error unless receive-pack reports that it took the objects and created the
// reference. The error says no more, because a push then finds out what is in the way.
func created(report []byte, ref string) error {
	if string(report) == packetLine("unpack ok\n")+packetLine("ok "+ref+"\n")+flushPacket {
		return nil
	}
	return &gitError{command: "receive-pack", code: 1, stderr: "it did not create " + ref}
}

// packSince returns a pack of the objects that a line of commits adds to a base, or errNeedsGit.
func (r *mirror) packSince(ctx context.Context, base, commit string) (string, error) {
	p := packer{r: r, has: map[string]bool{}, objects: memory.NewStorage()}
	for commit != base {
		if ctx.Err() != nil {
			return "", wrapf(context.Cause(ctx), "the release of a commit was stopped")
		}
		if p.commits++; p.commits > maxSentCommits {
			return "", errNeedsGit
		}
		parent, err := p.addCommit(commit)
		if err != nil {
			return "", err
		}
		commit = parent
	}
	if len(p.has) == 0 {
		return "", errNeedsGit
	}
	return p.pack()
}

// packer collects objects.
type packer struct {
	r       *mirror
	has     map[string]bool
	objects *memory.Storage
	ids     []plumbing.Hash
	size    int // uncompressed
	commits int
}

// addCommit adds a commit with one parent, and what its tree adds to that of the parent, which it
// returns.
func (p *packer) addCommit(id string) (parent string, err error) {
	content, err := p.r.object(kindCommit, id)
	if err != nil {
		return "", err
	}
	head, _, _ := strings.Cut(string(content), "\n\n")
	lines := strings.SplitN(head, "\n", 4)
	if len(lines) < 4 || !strings.HasPrefix(lines[2], "author ") {
		return "", errNeedsGit
	}
	tree, isTree := strings.CutPrefix(lines[0], "tree ")
	parent, isParent := strings.CutPrefix(lines[1], "parent ")
	if !isTree || !isParent {
		return "", errNeedsGit
	}
	before, err := p.r.commitTree(parent)
	if err != nil {
		return "", err
	}
	if err := p.add(kindCommit, id, content); err != nil {
		return "", err
	}
	return parent, p.addTree(before, tree)
}

// addTree adds a tree and what is in it but not in the one that was at the same path before, "" if
// there was none.
func (p *packer) addTree(before, tree string) error {
	if before == tree {
		return nil
	}
	content, err := p.r.object(kindTree, tree)
	if err != nil {
		return err
	}
	if err := p.add(kindTree, tree, content); err != nil {
		return err
	}
	changed, err := p.r.pairUp(before, tree)
	if err != nil {
		return err
	}
	for _, c := range changed {
		switch {
		case c.new.mode == "":
		case c.new.isTree():
			below := ""
			if c.old.isTree() {
				below = c.old.id
			}
			err = p.addTree(below, c.new.id)
		case !c.new.isFile():
			err = errNeedsGit
		case c.new.id != c.old.id || !c.old.isFile():
			if content, err = p.r.object(kindBlob, c.new.id); err == nil {
				err = p.add(kindBlob, c.new.id, content)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// packKinds are the kinds of objects that are packed.
var packKinds = map[string]plumbing.ObjectType{kindCommit: plumbing.CommitObject, kindTree: plumbing.TreeObject, kindBlob: plumbing.BlobObject}

func (p *packer) add(kind, id string, content []byte) error {
	if p.has[id] {
		return nil
	}
	p.has[id] = true
	if p.size += len(content); p.size > maxSentBytes {
		return errNeedsGit
	}
	object := p.objects.NewEncodedObject()
	object.SetType(packKinds[kind])
	into, err := object.Writer()
	if err != nil {
		return err
	}
	_, err = into.Write(content)
	if err = errors.Join(err, into.Close()); err != nil {
		return err
	}
	packed, err := p.objects.SetEncodedObject(object)
	p.ids = append(p.ids, packed)
	return err
}

// pack returns the objects as a pack, without comparing them for deltas.
func (p *packer) pack() (string, error) {
	var pack strings.Builder
	if _, err := packfile.NewEncoder(&pack, p.objects, false).Encode(p.ids, 0); err != nil {
		return "", wrapf(err, "could not pack the commits of a release")
	}
	return pack.String(), nil
}
