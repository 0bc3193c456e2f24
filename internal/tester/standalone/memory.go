package standalone

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// memory stores the patches of workspaces for one verification, which no other process reads.
type memory struct {
	mu    sync.Mutex
	blobs map[string][]byte
}

// NewMemory returns a store for the patches of one command's workspaces.
func NewMemory() workspace.Blobs { return &memory{} }

// Put stores content.
func (m *memory) Put(_ context.Context, content []byte) (string, error) {
	sum := sha256.Sum256(content)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.blobs == nil {
		m.blobs = map[string][]byte{}
	}
	m.blobs[digest] = slices.Clone(content)
	return digest, nil
}

// Get returns stored content.
func (m *memory) Get(_ context.Context, digest string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	content, ok := m.blobs[digest]
	if !ok {
		return nil, fmt.Errorf("no content with the digest %s is stored", digest)
	}
	return content, nil
}

// realPath returns a path without symbolic links.
func realPath(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(path)
}
