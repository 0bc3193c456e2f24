package connect

// Find returns the name of the forge of a remote, and the repository's path on it.
func (s *Set) Find(address string) (name, repo string, err error) {
	f, repo, err := s.find(address)
	if err != nil {
		return "", "", err
	}
	return f.name, repo, nil
}
