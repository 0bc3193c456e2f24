// Package model calls language models. It contains providers, the catalogue of models with their
// limits and prices, and a client that makes one call and returns the response with its cost, or
// the failure with a class of package fault.
//
// All providers, including the scripted model of package scripted, are called with the OpenAI
// chat-completions protocol. The client never retries: only Temporal does. Its results never
// contain a key.
package model
