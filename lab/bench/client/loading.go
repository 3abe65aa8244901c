package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"
)

// load keeps `clients` schedulers asking filter for a while, with pauses between their calls, and counts what fails.
// Pauses around the server's keep-alive show whether it closes connections under a client that is about to use them.
func (s *settings) load(timeout time.Duration, files tlsFiles) {
	end := time.Now().Add(time.Duration(s.seconds * float64(time.Second)))
	var waiting sync.WaitGroup
	var lock sync.Mutex
	for _, one := range s.targets {
		for number := range s.clients {
			waiting.Go(func() {
				own := must(newCaller(one.url, timeout, files))
				own.opened = one.caller.opened
				random := rand.New(rand.NewPCG(s.seed, uint64(number)))
				for call := 0; time.Now().Before(end); call++ {
					var passed filterResult
					seen := own.stream("filter", s.request(random, fmt.Sprintf("%d-%d", number, call)), &passed)
					lock.Lock()
					one.note("filter", seen, false)
					lock.Unlock()
					time.Sleep(s.gap(random))
				}
			})
		}
	}
	waiting.Wait()
}

func (s *settings) gap(random *rand.Rand) time.Duration {
	if s.maxGap <= s.minGap {
		return s.minGap
	}
	return s.minGap + time.Duration(random.Int64N(int64(s.maxGap-s.minGap)))
}
