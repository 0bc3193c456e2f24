package brain

import (
	"slices"
	"sync"
)

// recent keeps the values that were used last. It is safe for concurrent use.
type recent[K comparable, V any] struct {
	most int

	mu     sync.Mutex
	values map[K]V
	used   []K // the one that was used last at the end
}

func newRecent[K comparable, V any](most int) *recent[K, V] {
	return &recent[K, V]{most: most, values: map[K]V{}}
}

func (r *recent[K, V]) get(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.values[key]
	if ok {
		r.touch(key)
	}
	return v, ok
}

func (r *recent[K, V]) put(key K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.values[key] = v
	r.touch(key)
	if len(r.used) > r.most {
		delete(r.values, r.used[0])
		r.used = slices.Delete(r.used, 0, 1)
	}
}

func (r *recent[K, V]) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.values)
	r.used = nil
}

func (r *recent[K, V]) touch(key K) {
	if i := slices.Index(r.used, key); i >= 0 {
		r.used = slices.Delete(r.used, i, i+1)
	}
	r.used = append(r.used, key)
}
