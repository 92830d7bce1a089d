package frontier

// minHeap is a binary heap of ids, the least first.
type minHeap []uint64

func (h *minHeap) push(id uint64) {
	*h = append(*h, id)
	h.up(len(*h) - 1)
}

// pop removes and returns the least; the heap must not be empty.
func (h *minHeap) pop() uint64 {
	s := *h
	least, last := s[0], len(s)-1
	s[0] = s[last]
	*h = s[:last]
	h.down(0)
	return least
}

func (h minHeap) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if h[parent] <= h[i] {
			return
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

func (h minHeap) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if right := child + 1; right < len(h) && h[right] < h[child] {
			child = right
		}
		if h[i] <= h[child] {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
