package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/client"

	"github.com/rocketgpt/orchestrator/internal/sandbox/docker/dockerfile"
)

// BuildOptions configure Build.
type BuildOptions struct {
	Enabled bool
	// Timeout limits a build; 0 means no limit.
	Timeout time.Duration
	// ContextBytes is the maximum size of a build's files.
	ContextBytes int64
	// Network is the network of RUN instructions: none, bridge or host.
	Network string
	// Memory limits each RUN instruction; 0 means no limit.
	Memory int64
	// LogBytes is how much of a build's output is kept for its error: the end.
	LogBytes int64
	// Age is how long an image that nobody uses is kept.
	Age time.Duration
}

// Source is what an image is built from.
type Source struct {
	// Dockerfile and Context are paths in the repository; Context "" is its root.
	Dockerfile, Context string
	// Target is the stage to build; "" is the last.
	Target string
	Args   map[string]string
	// Key identifies the content of Files: what was read from it is remembered. "" is not.
	Key string
	// Files opens the repository. release is called when it is not needed any longer.
	Files func(ctx context.Context) (root *os.Root, release func(), err error)
	// Output receives the build's output; nil: nobody.
	Output func([]byte)
}

// Built is an image that was built.
type Built struct {
	Name  string        // it contains the digest of all that the image was built from
	ID    string        // in the engine
	Bytes int64         // with the image that it was built from
	Kept  bool          // it existed already
	Time  time.Duration // of the build
}

// BuildError is the reason why an image could not be built.
type BuildError struct {
	// Refused is true if the build did not begin, because it is not allowed or cannot succeed.
	Refused bool
	Reason  string
	Log     string // the end of the output
}

func (e *BuildError) Error() string {
	if e.Log == "" {
		return e.Reason
	}
	return e.Reason + "\n" + e.Log
}

// builtPrefix begins the names of the images that workers build.
const builtPrefix = "rgpt-built:"

// prepared is what was read from a source.
type prepared struct {
	file    *dockerfile.File
	context string // digest
}

// builds are the builds of a runner.
type builds struct {
	mu       sync.Mutex
	current  map[string]*build
	prepared map[string]prepared
}

// build is a build under way, which others may wait for.
type build struct {
	done   chan struct{} // closed when what follows is final
	result Built
	err    error
}

// maxPrepared limits how many sources are remembered.
const maxPrepared = 256

// Build returns the image that a source results in. The image is built unless this Docker host has it
// already; several callers wait for one build. A build of other images than before, under the same
// names, is another one. The error is a *BuildError if the source is not allowed or cannot be built.
func (r *Runner) Build(ctx context.Context, s Source) (Built, error) {
	if !r.options.Build.Enabled {
		return Built{}, &BuildError{Refused: true, Reason: "the operator does not allow builds of images (execution.sandbox.docker.build.enabled)"}
	}
	p, err := r.prepare(ctx, s)
	if err != nil {
		return Built{}, err
	}
	ids, err := r.bases(ctx, p.file.Images)
	if err != nil {
		return Built{}, err
	}
	name := builtPrefix + dockerfile.Digest(p.file, ids, s.Target, p.context)
	for {
		if found, err := r.builtAs(ctx, name); err != nil || found.ID != "" {
			return found, err
		}
		b, mine := r.builds.join(name)
		if mine {
			b.result, b.err = r.build(ctx, s, p.file.Render(ids), name)
			r.builds.leave(name, b)
			return b.result, b.err
		}
		select {
		case <-ctx.Done():
			return Built{}, context.Cause(ctx)
		case <-b.done:
		}
		var failed *BuildError
		if errors.As(b.err, &failed) { // then it failed for all that waited for it
			return Built{}, b.err
		}
	}
}

// join returns the build of an image, and whether it is the caller's to carry out.
func (b *builds) join(name string) (_ *build, mine bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil {
		b.current = map[string]*build{}
	}
	if known := b.current[name]; known != nil {
		return known, false
	}
	b.current[name] = &build{done: make(chan struct{})}
	return b.current[name], true
}

// leave ends a build.
func (b *builds) leave(name string, done *build) {
	b.mu.Lock()
	delete(b.current, name)
	b.mu.Unlock()
	close(done.done)
}

// prepare reads a source, or remembers it.
func (r *Runner) prepare(ctx context.Context, s Source) (prepared, error) {
	key := fmt.Sprintf("%q", []any{s.Key, s.Dockerfile, s.Context, s.Target, s.Args})
	r.builds.mu.Lock()
	known, ok := r.builds.prepared[key]
	r.builds.mu.Unlock()
	if ok && s.Key != "" {
		return known, nil
	}
	root, release, err := s.Files(ctx)
	if err != nil {
		return prepared{}, err
	}
	defer release()
	p, err := r.read(root, s)
	if err != nil {
		return prepared{}, refuse(s.Dockerfile, err)
	}
	r.builds.mu.Lock()
	defer r.builds.mu.Unlock()
	if r.builds.prepared == nil || len(r.builds.prepared) >= maxPrepared {
		r.builds.prepared = map[string]prepared{}
	}
	r.builds.prepared[key] = p
	return p, nil
}

func (r *Runner) read(root *os.Root, s Source) (p prepared, err error) {
	data, err := dockerfile.ReadFile(root, s.Dockerfile, dockerfile.MaxBytes)
	if err != nil {
		return p, err
	}
	if p.file, err = dockerfile.Parse(data, s.Target, s.Args); err != nil {
		return p, err
	}
	context, err := dockerfile.ReadContext(root, contextOf(s), s.Dockerfile, r.options.Build.ContextBytes)
	if err != nil {
		return p, err
	}
	p.context = context.Digest
	return p, nil
}

func contextOf(s Source) string {
	if s.Context == "" {
		return "."
	}
	return s.Context
}

// refuse turns an error about a source into a *BuildError.
func refuse(name string, err error) error {
	var refused *dockerfile.Refused
	if errors.As(err, &refused) || errors.Is(err, fs.ErrNotExist) {
		return &BuildError{Refused: true, Reason: fmt.Sprintf("the image of %s cannot be built: %s", name, err)}
	}
	return fmt.Errorf("read %s and its context: %w", name, err)
}

// bases returns the ids of the images that a build uses. Their names must be allowed, and they must be
// on the Docker host, or be pulled, before the build begins.
func (r *Runner) bases(ctx context.Context, names []string) (map[string]string, error) {
	ids := map[string]string{}
	for _, name := range names {
		if !r.allows(name) {
			return nil, &BuildError{Refused: true, Reason: fmt.Sprintf("the Dockerfile uses the image %s, which the operator does not allow (execution.sandbox.docker.images)", name)}
		}
		img, err := r.inspectImage(ctx, name)
		if err != nil {
			return nil, err
		}
		ids[name] = img.id
	}
	return ids, nil
}

// allows reports whether an image is the runner's own, or one that repositories may choose.
func (r *Runner) allows(name string) bool {
	return name == r.options.Image || r.options.Allowed != nil && r.options.Allowed(name)
}

// builtAs returns an image that was built, and remembers that it is used: the engine stores when a name
// was given. The id is empty if there is none.
func (r *Runner) builtAs(ctx context.Context, name string) (Built, error) {
	found, err := r.engine.ImageInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		return Built{}, nil
	}
	if err == nil {
		_, err = r.engine.ImageTag(ctx, client.ImageTagOptions{Source: found.ID, Target: name})
	}
	if cerrdefs.IsNotFound(err) { // removed since
		return Built{}, nil
	}
	if err != nil {
		return Built{}, fmt.Errorf("find the image %s: %w", name, err)
	}
	return Built{Name: name, ID: found.ID, Bytes: found.Size, Kept: true}, nil
}

// build builds an image from rendered instructions.
func (r *Runner) build(ctx context.Context, s Source, instructions []byte, name string) (Built, error) {
	started, limits := time.Now(), r.options.Build
	outer := ctx
	if limits.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limits.Timeout)
		defer cancel()
	}
	root, release, err := s.Files(ctx)
	if err != nil {
		return Built{}, err
	}
	defer release()
	files, err := dockerfile.ReadContext(root, contextOf(s), s.Dockerfile, limits.ContextBytes)
	if err != nil {
		return Built{}, refuse(s.Dockerfile, err)
	}
	reader, writer := io.Pipe()
	written := make(chan struct{})
	go func() {
		defer close(written)
		_ = writer.CloseWithError(files.Write(writer, root, instructions))
	}()
	log := &logTail{most: int(limits.LogBytes), output: s.Output}
	err = r.follow(ctx, reader, r.buildOptions(s, name), log)
	_ = reader.CloseWithError(io.ErrClosedPipe)
	<-written
	switch {
	case outer.Err() != nil:
		return Built{}, fmt.Errorf("build the image of %s: %w", s.Dockerfile, context.Cause(outer))
	case ctx.Err() != nil:
		return Built{}, &BuildError{Reason: fmt.Sprintf("the build of %s took longer than %s (execution.sandbox.docker.build.timeout)", s.Dockerfile, limits.Timeout), Log: log.String()}
	case errors.As(err, new(*engineError)):
		return Built{}, &BuildError{Reason: fmt.Sprintf("the build of %s failed: %s", s.Dockerfile, err), Log: log.String()}
	case err != nil:
		return Built{}, fmt.Errorf("build the image of %s: %w", s.Dockerfile, err)
	}
	found, err := r.builtAs(ctx, name)
	if err == nil && found.ID == "" {
		err = fmt.Errorf("the engine did not keep the image %s that it built", name)
	}
	found.Kept, found.Time = false, time.Since(started)
	return found, err
}

// cpuPeriod is the period of limits of processor time.
const cpuPeriod = 100 * time.Millisecond

func (r *Runner) buildOptions(s Source, name string) client.ImageBuildOptions {
	limits := r.options.Build
	args := map[string]*string{}
	for key, value := range s.Args {
		args[key] = &value
	}
	o := client.ImageBuildOptions{
		Tags: []string{name}, Dockerfile: dockerfile.Name, Target: s.Target, BuildArgs: args,
		Remove: true, ForceRemove: true, NetworkMode: limits.Network,
		Labels: map[string]string{dockerfile.LabelBuilding: dockerfile.Built},
	}
	if limits.Memory > 0 {
		o.Memory, o.MemorySwap = limits.Memory, limits.Memory // no swap
	}
	if r.options.CPUs > 0 {
		o.CPUPeriod = cpuPeriod.Microseconds()
		o.CPUQuota = int64(r.options.CPUs * float64(o.CPUPeriod))
	}
	return o
}

// engineError is what the engine says about work that it could not carry out.
type engineError struct{ message string }

func (e *engineError) Error() string { return clean(e.message) }

// follow has the engine build an image, and reads its output until the end. The engine stops the build
// if ctx ends or this process dies: the connection is then closed.
func (r *Runner) follow(ctx context.Context, files io.Reader, o client.ImageBuildOptions, log *logTail) error {
	result, err := r.engine.ImageBuild(ctx, files, o)
	if cerrdefs.IsInvalidArgument(err) {
		return &engineError{err.Error()}
	}
	if err != nil {
		return err
	}
	defer func() { _ = result.Body.Close() }()
	return readMessages(result.Body, log)
}

// readMessages reads the messages of an engine at work.
func readMessages(r io.Reader, log *logTail) error {
	decoder := json.NewDecoder(r)
	for {
		var m jsonstream.Message
		if err := decoder.Decode(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("read the engine's output: %w", err)
		}
		if m.Error != nil {
			return &engineError{m.Error.Message}
		}
		log.add(m.Stream)
	}
}

// logTail keeps the end of an output, and passes all of it on.
type logTail struct {
	most   int
	output func([]byte)
	text   []byte
}

func (l *logTail) add(text string) {
	if l.output != nil && text != "" {
		l.output([]byte(text))
	}
	l.text = append(l.text, text...)
	if over := len(l.text) - l.most; over > l.most || over > 0 && len(text) > l.most {
		l.text = slices.Clone(l.text[over:])
	}
}

// String returns the end of the output, safe to show.
func (l *logTail) String() string {
	text := l.text[max(0, len(l.text)-l.most):]
	return strings.TrimSpace(clean(string(text)))
}

// clean removes what a terminal or a database would not take from a text.
func clean(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, ""))
}
