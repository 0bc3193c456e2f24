package devstack

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"
)

// stopTime is how long a process may take to stop by itself.
const stopTime = 15 * time.Second

// Down stops what Up started, in the reverse order. The data stays.
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
	if s, err = Load(dataDir); err != nil { // as it is now that we hold the lock
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
