// Package modelclient calls language models: it makes one call and returns the response with its cost, or
// the failure with a class of package fault. It never retries: only Temporal does. Its results never
// contain a key.
package modelclient
