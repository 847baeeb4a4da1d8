/* For clique bench. */

kernel void empty(void) {}
