// Package model calls language models: it has providers, the catalogue of models with
// their limits and prices, and a client that makes one call and returns what it cost
// or, by the classes of package fault, why it failed.
//
// Every provider is reached by the OpenAI chat-completions protocol, including the
// scripted model of package scripted. The client never retries: only Temporal does.
// Nothing that it returns contains a key.
package model
