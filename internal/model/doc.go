// Package model has the vocabulary of model calls: providers, the catalogue of models with their
// limits and prices, conversations, requests and responses, and schemas of responses. Package modelclient
// makes the calls, and package wire below it speaks the providers' APIs.
package model
