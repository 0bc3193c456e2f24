package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// TreeFile is a regular file of a tree.
type TreeFile struct {
	Path string // with slashes
	Blob string // the id of its content
}

const (
	// maxTreePath is the length of the longest path that is listed.
	maxTreePath = 4096
	// blobBatch is the number of blobs that git is asked for at once.
	blobBatch = 256
	// blobBatchBytes limits the contents of a batch, which git writes before it gets the next one.
	blobBatchBytes = 16 << 20
)

// ListTree returns the regular files of the workspace by path, without links, submodules and files
// whose path is longer than 4 KiB.
func (m *Manager) ListTree(ctx context.Context, ws contract.Workspace) ([]TreeFile, error) {
	var files []TreeFile
	err := m.with(ctx, ws, func(r *mirror, _ string) error {
		records := &recordWriter{each: func(record []byte) error {
			// mode, kind and id, then the name after a tab
			head, name, ok := bytes.Cut(record, []byte{'\t'})
			fields := bytes.Fields(head)
			if !ok || len(fields) != 3 || string(fields[1]) != kindBlob || string(fields[0]) == modeLink || len(name) > maxTreePath {
				return nil
			}
			if int64(len(files)) == m.options.MaxRepositoryFiles {
				return r.tooLargeHere(fmt.Sprintf("has more than %d files", m.options.MaxRepositoryFiles), "git.max_files")
			}
			files = append(files, TreeFile{Path: string(name), Blob: string(fields[2])})
			return nil
		}}
		if _, err := r.run(ctx, call{args: []string{"ls-tree", "-r", "-z", ws.Tree}, stdout: records}); err != nil {
			if records.err != nil {
				return records.err
			}
			return localFault(err, "could not list the files in a workspace")
		}
		return nil
	})
	return files, err
}

// ReadBlobs reads contents by one git process and calls f for each in the order of ids. The content is
// nil if it is larger than most bytes or no blob of the repository; otherwise it is valid until f
// returns. An error of f ends it.
func (m *Manager) ReadBlobs(ctx context.Context, ws contract.Workspace, ids []string, most int64, f func(i int, content []byte) error) error {
	for _, id := range ids {
		if !commitID.MatchString(id) {
			return runtimeFault("%q is not the id of a blob", id)
		}
	}
	return m.with(ctx, ws, func(r *mirror, _ string) error {
		return r.readBlobs(ctx, ids, most, f)
	})
}

func (r *mirror) readBlobs(ctx context.Context, ids []string, most int64, f func(i int, content []byte) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// A file, which git reads itself: os/exec would wait for a reader of another kind even after git
	// has exited.
	requests, toGit, err := os.Pipe()
	if err != nil {
		return localFault(err, "could not read the files of a workspace")
	}
	fromGit, answers := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := r.run(ctx, call{args: []string{"cat-file", "--batch-command", "--buffer"}, stdin: requests, stdout: answers})
		answers.CloseWithError(errors.Join(err, io.ErrUnexpectedEOF))
		_ = requests.Close() // so that no request waits for a git that has exited
		done <- err
	}()
	reader := blobReader{to: toGit, from: bufio.NewReaderSize(fromGit, 64<<10)}
	err = reader.read(ids, most, f)
	_ = toGit.Close() // git reads what was written
	if err != nil {
		stop()
		fromGit.CloseWithError(io.ErrClosedPipe)
	}
	if gitErr := <-done; gitErr != nil && (err == nil || reader.broken) {
		if ctx.Err() != nil && err == nil {
			return wrapf(context.Cause(ctx), "reading files was stopped")
		}
		return localFault(gitErr, "could not read the files of a workspace")
	}
	return err
}

// blobReader talks to one git process.
type blobReader struct {
	to     io.Writer
	from   *bufio.Reader
	buffer []byte
	broken bool // the process failed, rather than the caller's function
}

func (b *blobReader) read(ids []string, most int64, f func(int, []byte) error) error {
	for first := 0; first < len(ids); first += blobBatch {
		batch := ids[first:min(first+blobBatch, len(ids))]
		sizes, err := b.sizes(batch)
		if err != nil {
			return err
		}
		for i, size := range sizes {
			if size > most {
				sizes[i] = -1
			}
		}
		for i := 0; i < len(batch); {
			end, err := b.request(batch, sizes, i)
			if err != nil {
				return err
			}
			for ; i < end; i++ {
				if err := b.deliver(batch[i], sizes[i], first+i, f); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// request asks for the contents from a place of a batch on, up to a number of bytes, and returns the
// place after them. Those of size -1 are left out.
func (b *blobReader) request(batch []string, sizes []int64, from int) (end int, err error) {
	var ask strings.Builder
	total := int64(0)
	for end = from; end < len(batch) && (end == from || total < blobBatchBytes); end++ {
		if sizes[end] >= 0 {
			total += sizes[end]
			ask.WriteString("contents " + batch[end] + "\n")
		}
	}
	if ask.Len() == 0 {
		return end, nil
	}
	return end, b.send(ask.String())
}

// deliver reads a content, unless its size is -1, and passes it on.
func (b *blobReader) deliver(id string, size int64, place int, f func(int, []byte) error) error {
	var content []byte
	if size >= 0 {
		var err error
		if content, err = b.content(id, size); err != nil {
			return err
		}
	}
	return f(place, content)
}

func (b *blobReader) send(text string) error {
	if _, err := io.WriteString(b.to, text+"flush\n"); err != nil {
		return b.failed(err)
	}
	return nil
}

func (b *blobReader) failed(err error) error {
	b.broken = true
	return fmt.Errorf("git cat-file: %w", err)
}

// sizes returns the sizes of blobs; -1 for what is none.
func (b *blobReader) sizes(ids []string) ([]int64, error) {
	var ask strings.Builder
	for _, id := range ids {
		ask.WriteString("info " + id + "\n")
	}
	if err := b.send(ask.String()); err != nil {
		return nil, err
	}
	sizes := make([]int64, len(ids))
	for i, id := range ids {
		size, err := b.header(id)
		if err != nil {
			return nil, err
		}
		sizes[i] = size
	}
	return sizes, nil
}

func (b *blobReader) header(id string) (int64, error) {
	line, err := b.from.ReadString('\n')
	if err != nil {
		return 0, b.failed(err)
	}
	fields := strings.Fields(line)
	if len(fields) == 0 || fields[0] != id {
		return 0, b.failed(fmt.Errorf("unexpected answer for %s", id))
	}
	if len(fields) != 3 || fields[1] != kindBlob {
		return -1, nil // missing, or another kind
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil {
		return 0, b.failed(err)
	}
	return size, nil
}

func (b *blobReader) content(id string, size int64) ([]byte, error) {
	if got, err := b.header(id); err != nil || got != size {
		return nil, b.failed(errors.Join(err, fmt.Errorf("the size of %s changed from %d to %d", id, size, got)))
	}
	if int64(cap(b.buffer)) < size+1 {
		b.buffer = make([]byte, size+1)
	}
	b.buffer = b.buffer[:size+1]
	if _, err := io.ReadFull(b.from, b.buffer); err != nil {
		return nil, b.failed(err)
	}
	return b.buffer[:size:size], nil
}

// LogCommit is one commit of a history.
type LogCommit struct {
	ID      string
	Parents []string
	Time    int64  // of the commit, in seconds since 1970
	Message string // its first 8 KiB, valid UTF-8
	Changes []LogChange
	// Truncated says that it changes more than 2,000 files, of which only these are listed.
	Truncated bool
}

// LogChange is a file that a commit changes.
type LogChange struct {
	Status byte   // A, M, D, R (renamed), C (copied) or T
	Path   string // after the commit
	From   string // the path before, if it was renamed or copied
}

const (
	maxLogMessage = 8 << 10
	maxLogChanges = 2000
	// logFields are the fields of a commit in logFormat, each of which ends with a zero byte.
	logFields = 4
	logFormat = "--format=format:%H%x00%ct%x00%P%x00%B%x00"
)

// Log calls f for up to most commits of the history of a commit, newest first, without merges; if
// since is the id of an earlier commit, only for those that are not in its history. It fetches as much
// of the history as it needs. An error of f ends it.
func (m *Manager) Log(ctx context.Context, repo contract.Repo, since string, most int, f func(LogCommit) error) error {
	if since != "" && !commitID.MatchString(since) || most <= 0 {
		return runtimeFault("invalid range of commits: %d commits since %q", most, since)
	}
	r, _, lock, err := m.use(ctx, repo.URL, repo.Base)
	if err != nil {
		return err
	}
	defer lock.release()
	if err := r.fetchCommits(ctx, repo.Base, most); err != nil {
		return err
	}
	args := []string{"log", "-z", "--no-merges", "--raw", "--no-abbrev", "-M", "-l300", "--no-ext-diff", "--no-textconv", "--no-color", logFormat, "-n", strconv.Itoa(most), repo.Base}
	if since != "" {
		if _, err := r.run(ctx, call{args: []string{"cat-file", "-e", since + "^{commit}"}}); err == nil {
			args = append(args, "^"+since)
		}
	}
	log := logParser{shallow: r.shallow(), each: f}
	records := &recordWriter{each: log.token}
	_, err = r.run(ctx, call{args: append(args, "--"), stdout: records})
	if records.err != nil {
		return records.err
	}
	if err != nil {
		return localFault(err, "could not read the history of %s", escapePercent(r.source.String()))
	}
	return log.finish()
}

// fetchCommits makes the history of a commit available up to a number of commits.
func (r *mirror) fetchCommits(ctx context.Context, commit string, most int) error {
	enough := func() (bool, error) {
		if len(r.shallow()) == 0 {
			return true, nil
		}
		out, err := r.run(ctx, call{args: []string{"rev-list", "--count", "--max-count=" + strconv.Itoa(most+1), commit, "--"}})
		n, _ := strconv.Atoi(strings.TrimSpace(string(out)))
		return n > most, err
	}
	if ok, err := enough(); ok || err != nil {
		return err
	}
	lock, err := r.m.locks.exclusive(ctx, r.fetchLock())
	if err != nil {
		return err
	}
	defer lock.release()
	if ok, err := enough(); ok || err != nil {
		return err
	}
	if err := r.checkSource(ctx); err != nil {
		return err
	}
	removeStaleLocks(r.gitDir())
	removeStalePacks(r.gitDir())
	if err := r.runFetch(ctx, lock, "--depth="+strconv.Itoa(most+2), commit+":refs/rgpt/base/"+commit); err != nil {
		return remoteFault(err, "could not fetch the history of %s", escapePercent(r.source.String()))
	}
	return nil
}

// shallow returns the commits whose parents are missing.
func (r *mirror) shallow() map[string]bool {
	content, err := os.ReadFile(filepath.Join(r.gitDir(), "shallow"))
	if err != nil {
		return nil
	}
	commits := map[string]bool{}
	for _, id := range strings.Fields(string(content)) {
		commits[id] = true
	}
	return commits
}

// logParser reads the fields of git log, which all end with a zero byte, so that no message or path
// can be taken for something else.
type logParser struct {
	shallow map[string]bool // seem to add all files
	each    func(LogCommit) error
	commit  LogCommit
	fields  int // of the current commit that were read
	change  *LogChange
	paths   int // that the current change still lacks
}

func (p *logParser) token(record []byte) error {
	text := string(record)
	switch {
	case p.paths > 0:
		if p.paths--; p.paths == 1 {
			p.change.From = text
			return nil
		}
		p.change.Path = text
		if len(p.commit.Changes) == maxLogChanges {
			p.commit.Truncated = true
			return nil
		}
		p.commit.Changes = append(p.commit.Changes, *p.change)
		return nil
	case p.fields == logFields:
		entry := strings.TrimPrefix(text, "\n")
		if !strings.HasPrefix(entry, ":") {
			if err := p.finish(); err != nil {
				return err
			}
			return p.field(entry)
		}
		status := entry[strings.LastIndexByte(entry, ' ')+1:]
		if status == "" {
			return fault.New(contract.ClassRuntime, contract.CodeUnknown, "git log wrote an unexpected line")
		}
		p.change = &LogChange{Status: status[0]}
		if p.paths = 1; status[0] == 'R' || status[0] == 'C' {
			p.paths = 2
		}
		return nil
	}
	return p.field(text)
}

func (p *logParser) field(text string) error {
	switch p.fields {
	case 0:
		if text = strings.TrimPrefix(text, "\n"); text == "" {
			return nil // between two commits
		}
		if !commitID.MatchString(text) {
			return fault.New(contract.ClassRuntime, contract.CodeUnknown, "git log wrote an unexpected line")
		}
		p.commit.ID = text
	case 1:
		p.commit.Time, _ = strconv.ParseInt(text, 10, 64)
	case 2:
		p.commit.Parents = strings.Fields(text)
	case 3:
		p.commit.Message = strings.ToValidUTF8(text[:min(len(text), maxLogMessage)], "\uFFFD")
	}
	p.fields++
	return nil
}

// finish passes on the current commit.
func (p *logParser) finish() error {
	if p.fields < logFields {
		return nil
	}
	commit := p.commit
	p.commit, p.fields = LogCommit{}, 0
	if p.shallow[commit.ID] {
		return nil
	}
	return p.each(commit)
}

// recordWriter splits what git writes at zero bytes.
type recordWriter struct {
	each func(record []byte) error
	part []byte
	err  error // of each
}

func (w *recordWriter) Write(p []byte) (int, error) {
	written := len(p)
	for len(p) > 0 {
		end := bytes.IndexByte(p, 0)
		if end < 0 {
			w.keep(p)
			return written, nil
		}
		w.keep(p[:end])
		if w.err = w.each(w.part); w.err != nil {
			return 0, w.err
		}
		w.part = w.part[:0]
		p = p[end+1:]
	}
	return written, nil
}

func (w *recordWriter) keep(p []byte) {
	// One byte more than allowed shows that a path is too long.
	room := maxLogMessage + maxTreePath + 1 - len(w.part)
	w.part = append(w.part, p[:min(len(p), max(room, 0))]...)
}
