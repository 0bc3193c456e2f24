package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/internal/sandbox/docker/dockerfile"
)

// sweepEvery is how often containers and files of workers that no longer exist are removed.
const sweepEvery = 10 * time.Second

// sweeper removes what killed workers of the same data folder left behind, and looks after the
// containers that were created in advance. A worker holds a lock on a file while it lives.
type sweeper struct {
	runner *Runner
	alive  *os.File
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// startSweeper sweeps once, and then regularly.
func startSweeper(r *Runner) *sweeper {
	ctx, stop := context.WithCancel(context.Background())
	s := &sweeper{runner: r, stop: stop}
	s.alive = s.lock()
	s.sweep(ctx)
	s.done.Go(func() {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		next := time.NewTimer(0)
		defer next.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				s.sweep(ctx)
			case <-next.C:
				s.sweepImages(ctx)
				next.Reset(sweepImagesEvery)
			}
		}
	})
	return s
}

// lockSuffix ends the names of the lock files of workers.
const lockSuffix = ".lock"

// lock marks this worker as alive.
func (s *sweeper) lock() *os.File {
	f, err := os.OpenFile(s.lockPath(s.runner.worker), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		s.runner.options.Log.Warn("This worker could not be marked as alive; another one may remove its containers.", "error", err)
	}
	return f
}

func (s *sweeper) lockPath(worker string) string {
	return filepath.Join(s.runner.dir, worker+lockSuffix)
}

// isAlive reports whether a worker holds its lock.
func (s *sweeper) isAlive(worker string) bool {
	if worker == s.runner.worker {
		return true
	}
	f, err := os.Open(s.lockPath(worker))
	if err != nil {
		return false
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil
}

// sweep removes the containers and files of dead workers.
func (s *sweeper) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, engineTime)
	defer cancel()
	before := time.Now()
	found, err := s.runner.engine.ContainerList(ctx, client.ContainerListOptions{
		All: true, Filters: client.Filters{}.Add("label", labelOwner+"="+s.runner.owner),
	})
	if err != nil {
		if ctx.Err() == nil {
			s.runner.options.Log.Warn("Containers could not be listed; the next sweep tries again.", "error", err)
		}
		return
	}
	own := map[string]bool{}
	for _, c := range found.Items {
		switch worker := c.Labels[labelWorker]; {
		case worker == s.runner.worker:
			own[c.ID] = true
		case !s.isAlive(worker):
			_, err := s.runner.engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
			if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
				s.runner.options.Log.Warn("A container of a worker that was killed could not be removed; the next sweep tries again.", "container", c.ID, "error", err)
			}
		}
	}
	s.runner.pool.check(own, before)
	s.runner.pool.expire(before)
	s.removeFiles()
}

// removeFiles removes the slots and locks of dead workers.
func (s *sweeper) removeFiles() {
	entries, err := os.ReadDir(s.runner.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		name := e.Name()
		if len(name) < 2*workerBytes || s.isAlive(name[:2*workerBytes]) {
			continue
		}
		_ = os.RemoveAll(filepath.Join(s.runner.dir, name))
	}
}

func (s *sweeper) close() {
	s.stop()
	s.done.Wait()
	if s.alive != nil {
		_ = s.alive.Close()
		_ = os.Remove(s.alive.Name())
	}
}

// sweepImages removes what killed engines left of builds, and images that nobody has used for a long
// time. The engine refuses to remove an image that a container uses.
func (s *sweeper) sweepImages(ctx context.Context) {
	limits := s.runner.options.Build
	if !limits.Enabled {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepImagesTime)
	defer cancel()
	if err := errors.Join(s.removeBuilders(ctx, limits.over()), s.removeBuilt(ctx, time.Now().Add(-limits.Age))); err != nil && ctx.Err() == nil {
		s.runner.options.Log.Warn("Images that are not needed could not be removed; a later sweep tries again.", "error", err)
	}
}

const (
	// sweepImagesEvery is how often images are swept.
	sweepImagesEvery = 10 * time.Minute
	// sweepImagesTime limits a sweep.
	sweepImagesTime = 2 * time.Minute
	// builderMargin is the time after the limit of builds in which one certainly has ended.
	builderMargin = 10 * time.Minute
)

// over returns the time before which all builds that have ended by now began; zero if there is none.
func (b BuildOptions) over() time.Time {
	if b.Timeout <= 0 {
		return time.Time{}
	}
	return time.Now().Add(-b.Timeout - builderMargin)
}

// removeBuilders removes containers of builds that ended without the engine cleaning up, and images of
// builds that did not succeed, if they were created before a time.
func (s *sweeper) removeBuilders(ctx context.Context, before time.Time) error {
	if before.IsZero() {
		return nil
	}
	building := dockerfile.LabelBuilding + "=" + dockerfile.Building
	found, err := s.runner.engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", building)})
	if err != nil {
		return err
	}
	var problems []error
	for _, c := range found.Items {
		if time.Unix(c.Created, 0).After(before) {
			continue
		}
		_, err := s.runner.engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
			problems = append(problems, err)
		}
	}
	_, err = s.runner.engine.ImagePrune(ctx, client.ImagePruneOptions{
		Filters: client.Filters{}.Add("dangling", "true").Add("label", building).Add("until", fmt.Sprint(before.Unix())),
	})
	if err != nil && !cerrdefs.IsConflict(err) { // another worker is at it
		problems = append(problems, err)
	}
	return errors.Join(problems...)
}

// removeBuilt removes built images that were last used before a time.
func (s *sweeper) removeBuilt(ctx context.Context, before time.Time) error {
	found, err := s.runner.engine.ImageList(ctx, client.ImageListOptions{
		Filters: client.Filters{}.Add("label", dockerfile.LabelBuilding+"="+dockerfile.Built),
	})
	if err != nil {
		return err
	}
	var problems []error
	for _, listed := range found.Items {
		img, err := s.runner.engine.ImageInspect(ctx, listed.ID)
		if cerrdefs.IsNotFound(err) {
			continue
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		if img.Metadata.LastTagTime.After(before) || !onlyBuilt(img.RepoTags) {
			continue
		}
		names := img.RepoTags
		if len(names) == 0 { // another worker built it as well
			names = []string{img.ID}
		}
		for _, name := range names {
			_, err := s.runner.engine.ImageRemove(ctx, name, client.ImageRemoveOptions{PruneChildren: true})
			if err != nil && !cerrdefs.IsNotFound(err) && !cerrdefs.IsConflict(err) {
				problems = append(problems, err)
			}
		}
	}
	return errors.Join(problems...)
}

// onlyBuilt reports whether all names of an image are those of built images: one that someone else named
// is theirs.
func onlyBuilt(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return !strings.HasPrefix(name, builtPrefix) })
}
