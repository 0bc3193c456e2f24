package stay

import "golang.org/x/time/rate"

// Limit returns the limit of questions to a forge (forges.<name>.poll_limit), for others that ask it.
func (s *Service) Limit(forge string) *rate.Limiter { return s.limits[forge] }

// Mentions reports whether a comment contains a mention as a word, in any case, outside of lines that
// quote another comment.
func Mentions(body, mention string) bool { return mentions(body, mention) }

// IsOwn reports whether RocketGPT wrote a comment: by its author, if the own name is known, and else by
// the mark in its text.
func IsOwn(author, body, own string) bool { return isOwn(author, body, own) }
