// Package contract is shared by every part of RocketGPT: the terms of a run (phases, statuses,
// plans, failures, events, artifacts), the types that cross process borders, and the names of
// queues, workflows, activities, signals, updates and queries.
//
// It imports the standard library only, so that workflow code may use all of it without
// losing determinism, and clients may use it without importing the rest of the product.
// Nothing here has side effects.
package contract
