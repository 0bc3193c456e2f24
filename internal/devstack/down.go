package devstack

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"
)

// stopTime is the time that a process has to stop on its own.
const stopTime = 15 * time.Second

// Down stops the processes that Up started, in reverse order. The data is kept.
func Down(ctx context.Context, dataDir string) (*Stack, error) {
	s, err := Load(dataDir)
	if err != nil {
		return nil, err
	}
	unlock, err := lock(s.DataDir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if s, err = Load(dataDir); err != nil { // reload, because it may have changed before we held the lock
		return nil, err
	}
	var failed error
	for _, role := range slices.Backward(Roles()) {
		p, ok := s.Process(role)
		if !ok || p.External {
			continue
		}
		signal := syscall.SIGTERM
		if role == RolePostgres {
			signal = syscall.SIGINT // "fast shutdown": does not wait for clients
		}
		if err := p.ID.Stop(ctx, stopTime, signal); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		p.State = "down"
		s.set(p)
	}
	s.Stopped = true
	return s, errors.Join(failed, s.save())
}
