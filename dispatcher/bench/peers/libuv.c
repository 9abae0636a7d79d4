/*
 * libuv as a peer of the event loops: the workloads L1 to L8, by name, each one sample as JSON on standard output.
 *
 * libuv has no callbacks that are posted with an argument and none that run in the next iteration, so every program on
 * it brings queues of its own. Those here are what one writes: a list of jobs behind an idle handle, and a stack that
 * is pushed by compare-exchange and taken whole behind an async handle, with a node from malloc for each post.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uv.h>

typedef void (*callback)(void *);

static uint64_t now_ns(clockid_t clock) {
	struct timespec time;
	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static uint64_t wall_began, cpu_began;

static void begin(void) {
	cpu_began = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	wall_began = now_ns(CLOCK_MONOTONIC);
}

static void end(uint64_t ops, bool ok) {
	uint64_t wall = now_ns(CLOCK_MONOTONIC) - wall_began;
	uint64_t cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_began;
	printf("{\"ops\":%llu,\"wall_ns\":%llu,\"cpu_ns\":%llu,\"ok\":%s}\n", (unsigned long long)ops,
	       (unsigned long long)wall, (unsigned long long)cpu, ok ? "true" : "false");
	fflush(stdout);
}

static void *checked(void *memory) {
	if (memory == NULL)
		abort();
	return memory;
}

/* A loop with its queues. */

struct job {
	callback call;
	void *argument;
	struct job *next;
};

struct node {
	callback call;
	void *argument;
	struct node *next;
};

struct looper {
	uv_loop_t loop;
	uv_async_t async;
	uv_idle_t idle;
	struct job *first, **last;
	_Alignas(64) _Atomic(struct node *) posts;
};

static void run_jobs(uv_idle_t *idle) {
	struct looper *looper = idle->data;
	struct job *job = looper->first;
	looper->first = NULL;
	looper->last = &looper->first;
	while (job != NULL) {
		struct job *next = job->next;
		job->call(job->argument);
		job = next;
	}
	if (looper->first == NULL)
		uv_idle_stop(idle);
}

static void arm(struct looper *looper, struct job *job) {
	if (looper->first == NULL)
		uv_idle_start(&looper->idle, run_jobs);
	job->next = NULL;
	*looper->last = job;
	looper->last = &job->next;
}

static void run_posts(uv_async_t *async) {
	struct looper *looper = async->data;
	struct node *newest = atomic_exchange_explicit(&looper->posts, NULL, memory_order_acquire);
	struct node *oldest = NULL;
	while (newest != NULL) {
		struct node *next = newest->next;
		newest->next = oldest;
		oldest = newest;
		newest = next;
	}
	while (oldest != NULL) {
		struct node *node = oldest;
		oldest = node->next;
		node->call(node->argument);
		free(node);
	}
}

static void post(struct looper *looper, callback call, void *argument) {
	struct node *node = checked(malloc(sizeof *node));
	node->call = call;
	node->argument = argument;
	node->next = atomic_load_explicit(&looper->posts, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&looper->posts, &node->next, node, memory_order_release,
						      memory_order_relaxed))
		;
	if (node->next == NULL)
		uv_async_send(&looper->async);
}

static struct looper *new_looper(void) {
	struct looper *looper = checked(aligned_alloc(64, (sizeof *looper + 63) / 64 * 64));
	memset(looper, 0, sizeof *looper);
	looper->last = &looper->first;
	uv_loop_init(&looper->loop);
	uv_async_init(&looper->loop, &looper->async, run_posts);
	uv_idle_init(&looper->loop, &looper->idle);
	looper->async.data = looper->idle.data = looper;
	return looper;
}

static void stop(void *argument) {
	struct looper *looper = argument;
	uv_stop(&looper->loop);
}

static void run_looper(void *argument) {
	struct looper *looper = argument;
	uv_run(&looper->loop, UV_RUN_DEFAULT);
}

static struct looper *here, *there;
static uint64_t left, seen, total;

/* L1: a job arms itself anew. */

static struct job chained;

static void chain(void *argument) {
	(void)argument;
	seen++;
	if (--left == 0)
		stop(here);
	else
		arm(here, &chained);
}

static void job_chain(void) {
	total = left = 1000000;
	chained.call = chain;
	arm(here, &chained);
	begin();
	run_looper(here);
	end(total, seen == total);
}

/* L1b: batches of a thousand jobs. */

#define BATCH 1000
static struct job batch[BATCH];

static void count(void *argument) {
	(void)argument;
	seen++;
}

static void arm_batch(void *argument) {
	(void)argument;
	if (left-- == 0) {
		stop(here);
		return;
	}
	for (int nth = 0; nth < BATCH; nth++)
		arm(here, &batch[nth]);
	arm(here, &chained);
}

static void job_batch(void) {
	left = 5000;
	total = left * BATCH;
	for (int nth = 0; nth < BATCH; nth++)
		batch[nth].call = count;
	chained.call = arm_batch;
	arm(here, &chained);
	begin();
	run_looper(here);
	end(total, seen == total);
}

/* L2: a post to the own loop posts the next. */

static void self_hop(void *argument) {
	seen++;
	if (--left == 0)
		stop(here);
	else
		post(here, self_hop, argument);
}

static void self_post(void) {
	total = left = 1000000;
	post(here, self_hop, NULL);
	begin();
	run_looper(here);
	end(total, seen == total);
}

/* L3: two loops post to each other. */

static void hop(void *argument) {
	(void)argument;
	seen++;
	if (--left == 0) {
		post(here, stop, here);
		post(there, stop, there);
	} else {
		post(left % 2 == 0 ? here : there, hop, NULL);
	}
}

static void ping_pong(void) {
	uv_thread_t thread;
	total = 200000;
	left = total * 2;
	there = new_looper();
	uv_thread_create(&thread, run_looper, there);
	post(here, hop, NULL);
	begin();
	run_looper(here);
	end(total, seen == total * 2);
	uv_thread_join(&thread);
}

/* L4: a callback of one loop posts a burst to another. */

static void finish_burst(void *argument) {
	(void)argument;
	stop(there);
	post(here, stop, here);
}

static void burst_from_here(void *argument) {
	(void)argument;
	for (uint64_t nth = 0; nth < total; nth++)
		post(there, count, NULL);
	post(there, finish_burst, NULL);
}

static void burst(void) {
	uv_thread_t thread;
	total = 5000000;
	there = new_looper();
	uv_thread_create(&thread, run_looper, there);
	post(here, burst_from_here, NULL);
	begin();
	run_looper(here);
	end(total, seen == total);
	uv_thread_join(&thread);
}

/* L5, L6: work on one worker thread, the result back. */

static _Atomic uint64_t worked;

static void work(uv_work_t *request) {
	(void)request;
	atomic_fetch_add_explicit(&worked, 1, memory_order_relaxed);
}

static void work_done(uv_work_t *request, int status) {
	seen += status == 0;
	if (left > 0) {
		left--;
		uv_queue_work(&here->loop, request, work, work_done);
	} else if (seen == total) {
		stop(here);
	}
}

static void work_in_flight(uint64_t count, uint64_t flights) {
	total = count;
	left = total - flights;
	begin();
	for (uint64_t nth = 0; nth < flights; nth++)
		uv_queue_work(&here->loop, checked(malloc(sizeof(uv_work_t))), work, work_done);
	run_looper(here);
	end(total, seen == total && worked == total);
}

/* L7: a timer is armed and canceled; L7b: moved, among 100,000. */

static void never(uv_timer_t *timer) {
	(void)timer;
	abort();
}

static void arm_and_cancel(void) {
	uv_timer_t timer;
	total = 5000000;
	uv_timer_init(&here->loop, &timer);
	begin();
	for (uint64_t nth = 0; nth < total; nth++) {
		uv_timer_start(&timer, never, 1000000 + nth, 0);
		seen += (uint64_t)uv_is_active((uv_handle_t *)&timer);
		uv_timer_stop(&timer);
	}
	end(total, seen == total);
}

#define MANY 100000

static void move_among_many(void) {
	uv_timer_t *timers = checked(calloc(MANY, sizeof *timers));
	uint64_t random = 88172645463325252ull;
	total = 2000000;
	for (int nth = 0; nth < MANY; nth++) {
		uv_timer_init(&here->loop, &timers[nth]);
		uv_timer_start(&timers[nth], never, 1000000 + (uint64_t)nth, 0);
	}
	begin();
	for (uint64_t nth = 0; nth < total; nth++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		uv_timer_start(&timers[random % MANY], never, 1000000 + random % 1000000, 0);
	}
	end(total, uv_is_active((uv_handle_t *)&timers[0]));
}

/* L8: 100,000 timers that fall due within a second. */

static void fire(uv_timer_t *timer) {
	(void)timer;
	if (++seen == total)
		stop(here);
}

static void many_due(void) {
	uv_timer_t *timers = checked(calloc(MANY, sizeof *timers));
	uint64_t random = 88172645463325252ull;
	total = MANY;
	begin();
	for (int nth = 0; nth < MANY; nth++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		uv_timer_init(&here->loop, &timers[nth]);
		uv_timer_start(&timers[nth], fire, random % 1000, 0);
	}
	run_looper(here);
	end(total, seen == total);
}

int main(int count_of_arguments, char **arguments) {
	const char *name = count_of_arguments == 2 ? arguments[1] : "";
	/* One worker, as each lane of a loop has. */
	setenv("UV_THREADPOOL_SIZE", "1", 1);
	here = new_looper();
	if (strcmp(name, "L1") == 0)
		job_chain();
	else if (strcmp(name, "L1b") == 0)
		job_batch();
	else if (strcmp(name, "L2") == 0)
		self_post();
	else if (strcmp(name, "L3") == 0)
		ping_pong();
	else if (strcmp(name, "L4") == 0)
		burst();
	else if (strcmp(name, "L5") == 0)
		work_in_flight(100000, 1);
	else if (strcmp(name, "L6") == 0)
		work_in_flight(500000, 64);
	else if (strcmp(name, "L7") == 0)
		arm_and_cancel();
	else if (strcmp(name, "L7b") == 0)
		move_among_many();
	else if (strcmp(name, "L8") == 0)
		many_due();
	else {
		fprintf(stderr, "usage: libuv-peer L1|L1b|L2|L3|L4|L5|L6|L7|L7b|L8\n");
		return 2;
	}
	return 0;
}
