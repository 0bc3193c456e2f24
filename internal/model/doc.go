// Package model talks to language models: providers, the catalogue of models
// with their limits and prices, and a client that makes one call and says what
// it cost or, by the classes of package fault, why it failed.
//
// Every provider is reached by the OpenAI chat-completions protocol, the
// scripted model of package scripted too. The client never tries again: Temporal
// is the only retrier. Nothing that it returns holds a key.
package model
