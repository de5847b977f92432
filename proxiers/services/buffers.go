package services

// buffers hold the ports of the latest Snapshot and of the one before it. Changes are written into the older map, which
// is then the latest: a Snapshot costs no copy of all ports, and yet the map that a proxier was given lasts until the end
// of the Sync after its own.
type buffers struct {
	latest, older map[Key]*ServicePort
	behind        []Key // what differs between the two
}

func newBuffers() buffers {
	return buffers{latest: map[Key]*ServicePort{}, older: map[Key]*ServicePort{}}
}

// apply makes a new latest map out of the changes (nil: gone), and returns their keys.
func (b *buffers) apply(changes map[Key]*ServicePort) []Key {
	if len(changes) == 0 {
		return nil
	}
	for _, k := range b.behind {
		put(b.older, k, b.latest[k])
	}
	keys := make([]Key, 0, len(changes))
	for k, p := range changes {
		put(b.older, k, p)
		keys = append(keys, k)
	}
	b.latest, b.older, b.behind = b.older, b.latest, keys
	return keys
}

func put(m map[Key]*ServicePort, k Key, p *ServicePort) {
	if p == nil {
		delete(m, k)
	} else {
		m[k] = p
	}
}
